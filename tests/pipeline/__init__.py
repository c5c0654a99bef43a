"""Tests of gf_i2p.pipeline, on a small Spark of this machine."""
