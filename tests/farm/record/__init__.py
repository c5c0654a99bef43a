"""Tests of gf_i2p.farm.record."""
