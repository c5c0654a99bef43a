"""Tests of integration.load."""
