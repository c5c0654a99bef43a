"""Tests of integration.bench.systems."""
