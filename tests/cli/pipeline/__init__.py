"""Tests of gf_i2p.cli.pipeline that start no Spark."""
