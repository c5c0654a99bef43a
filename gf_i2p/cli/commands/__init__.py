"""The commands of `gf-i2p`. The commands `doctor` and `pipeline` have packages of their own."""
