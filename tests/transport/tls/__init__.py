"""Tests of gf_i2p.transport.tls."""
