"""Tests of the page of `gf-i2p console`."""
