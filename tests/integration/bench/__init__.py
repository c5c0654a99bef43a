"""Tests of integration.bench."""
