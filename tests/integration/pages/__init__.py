"""Tests of the reader of console blocks."""
