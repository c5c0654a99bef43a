"""Tests of gf_i2p.pipeline.synth."""
