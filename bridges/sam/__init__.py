"""Client of SAM: destinations, names, and sessions that carry streams."""
