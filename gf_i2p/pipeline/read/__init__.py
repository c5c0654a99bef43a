"""Reads the lines of history files and gives entries as columns. It writes no table."""
