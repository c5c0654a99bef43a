"""Tests of the router bridges."""
