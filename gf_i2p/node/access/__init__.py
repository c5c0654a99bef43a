"""Which requests a user may send, and what a poster may write; the text of login keys. Logins are in `gf_i2p.wire`."""
