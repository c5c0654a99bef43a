"""Tests of gf_i2p.farm.choice."""
