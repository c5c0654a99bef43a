"""Tests of gf_i2p.pipeline.stream, and of the command `gf-i2p pipeline stream`."""
