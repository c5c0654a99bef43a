"""The page of `gf-i2p console`: a farm in the browser of the operator, served on loopback by the command itself."""
