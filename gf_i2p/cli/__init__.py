"""The command line `gf-i2p`, which prints text or JSON. The packages below hold the commands."""
