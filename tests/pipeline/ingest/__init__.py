"""Tests of gf_i2p.pipeline.ingest, and of the command `gf-i2p pipeline ingest`."""
