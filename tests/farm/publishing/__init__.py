"""Tests of `gf_i2p/farm/publishing`: the machines, step by step, without log, clock or router."""
