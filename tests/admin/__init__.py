"""Tests of the running node."""
