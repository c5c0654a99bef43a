"""The status of a running node for its operator, as values. `gf_i2p.admin` serves them, `gf_i2p.cli` prints them."""
