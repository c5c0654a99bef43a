"""Tests of what the farm knows and decides."""
