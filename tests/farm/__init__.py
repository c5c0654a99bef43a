"""Tests of gf_i2p.farm: the farm's state, the choices and the publishing machines."""
