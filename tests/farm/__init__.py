"""Tests of the farm's knowledge and decisions."""
