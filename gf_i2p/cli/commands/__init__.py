"""The commands of `gf-i2p`, but for `doctor` and `pipeline`, which have packages of their own."""
