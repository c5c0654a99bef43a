"""Tests of gf_i2p.transport.i2p."""
