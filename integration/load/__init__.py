"""Clients that put load on a farm, the faults that befall it, and the checks of what became of it."""
