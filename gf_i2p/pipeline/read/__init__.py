"""Reads the lines of history files and gives entries as columns. This package writes no table."""
