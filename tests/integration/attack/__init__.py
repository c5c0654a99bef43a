"""Tests of integration.attack."""
