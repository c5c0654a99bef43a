"""Tests of integration.mutation."""
