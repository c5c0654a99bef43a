"""Tests that this version reads what each release has written, and refuses what only a later one can read."""
