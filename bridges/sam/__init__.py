"""SAM as a client: destinations, names, and sessions that carry streams."""
