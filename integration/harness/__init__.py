"""What runs, recordings and scenarios share: processes, farms on this machine, networks, files."""
