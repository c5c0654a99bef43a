"""Tests of integration.reference."""
