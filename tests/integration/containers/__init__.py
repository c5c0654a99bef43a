"""Tests of integration.containers."""
