"""Tests of bridges.sam.client."""
