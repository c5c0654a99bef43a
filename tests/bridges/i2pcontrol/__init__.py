"""Tests of bridges.i2pcontrol."""
