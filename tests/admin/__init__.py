"""Tests of gf_i2p.admin."""
