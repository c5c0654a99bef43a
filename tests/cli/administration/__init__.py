"""Tests of gf_i2p.cli.administration."""
