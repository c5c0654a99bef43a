"""`gf-i2p members`: servers and leaf members that come and go, by a running node or by an administrator's file."""
