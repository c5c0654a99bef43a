"""Short runs of integration.runs."""
