"""Tests of gf_i2p.node.recovery.farm_of_one."""
