"""Which requests a user may send, and what a poster may write. Passwords and Digest are in `gf_i2p.wire`."""
