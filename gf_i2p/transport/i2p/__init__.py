"""Connections through I2P: the node dials by the router's proxy or its own session, and listens on a loopback port."""
