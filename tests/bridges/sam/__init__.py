"""Tests of bridges.sam."""
