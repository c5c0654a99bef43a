"""Tests of integration.harness."""
