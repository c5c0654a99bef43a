"""Tests of `gf_i2p/node/history/`."""
