"""The administration API of a running node, over its local socket. The API's client is in `gf_i2p.cli`."""
