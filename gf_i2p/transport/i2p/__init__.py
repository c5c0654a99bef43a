"""Connections through I2P: out by the router's proxy or our own session, in by a loopback port."""
