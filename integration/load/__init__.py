"""Clients that put load on a farm, faults of its servers, and checks of the results."""
