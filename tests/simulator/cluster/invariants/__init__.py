"""Tests of `gf_i2p/simulator/cluster/invariants/`."""
