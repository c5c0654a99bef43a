"""Runs the commands that the documentation shows, and compares what they print."""
