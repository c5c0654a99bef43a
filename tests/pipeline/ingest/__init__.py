"""Tests of gf_i2p.pipeline.ingest.job, and of its command."""
