"""Mutation testing: breaks the code by rules, one place at a time, and looks whether a judge notices."""
