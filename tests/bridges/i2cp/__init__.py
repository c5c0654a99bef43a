"""Tests of bridges.i2cp."""
