"""Tests of gf_i2p.pipeline.floodfills."""
