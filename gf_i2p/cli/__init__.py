"""The command line `gf-i2p`: arguments in, text or JSON out. What a command does is in the packages below."""
