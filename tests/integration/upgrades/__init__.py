"""Tests of the upgrade run."""
