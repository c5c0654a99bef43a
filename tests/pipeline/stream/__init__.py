"""Tests of gf_i2p.pipeline.stream.job, and of its command."""
