"""Tests of bridges.serving."""
