"""`gf-i2p bridge serve`: a `RouterBridge` as an i2pcontrol endpoint, for programs in any language."""
