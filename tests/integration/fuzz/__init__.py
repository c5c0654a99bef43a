"""Tests of integration.fuzz."""
