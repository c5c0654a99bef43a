"""Tests of gf_i2p.netdb."""
