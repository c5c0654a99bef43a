"""Helpers of runs, recordings and scenarios: processes, farms on this machine, networks, files."""
