"""Connections through I2P: out by the router's proxy or the node's own session, in by a loopback port."""
