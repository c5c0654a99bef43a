"""The status of a running node, as values. `gf_i2p.admin` serves and `gf_i2p.cli` prints the values."""
