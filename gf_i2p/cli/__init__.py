"""The command line `gf-i2p`: arguments in, text or JSON out. The packages below hold the commands."""
