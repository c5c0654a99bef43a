"""The job `stream`: follows histories while they grow, and raises alerts."""
