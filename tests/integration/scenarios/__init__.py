"""Tests of integration.scenarios."""
