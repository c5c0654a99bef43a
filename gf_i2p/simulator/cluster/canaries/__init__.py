"""Cores that are broken on purpose, one module for each family of invariants that must notice them."""
