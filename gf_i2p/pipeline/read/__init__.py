"""Reads the lines of history files, and makes columns of the entries. This package writes no table."""
