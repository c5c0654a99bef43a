"""Tests of bridges.streaming."""
