"""The command line, `gf-i2p`."""
