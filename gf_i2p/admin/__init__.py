"""The administration API of a running node, over its local socket. The client of the API is in `gf_i2p.cli`."""
