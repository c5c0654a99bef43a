"""Tests of the consensus core."""
