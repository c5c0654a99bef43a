"""`gf-i2p members`: adds and removes servers and leaf-only members, by a node or by an administrator's file."""
