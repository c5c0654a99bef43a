"""Tests of integration.jraft."""
