"""Tests of gf_i2p.simulator: runs are repeatable, runs keep to the settings, and the rules notice faults."""
