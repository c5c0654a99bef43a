"""Cores that are broken on purpose, in the families of the invariants that must notice them."""
