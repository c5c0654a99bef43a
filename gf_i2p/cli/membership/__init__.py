"""`gf-i2p members`: adds and removes servers and leaf members, by a node or by an administrator's file."""
