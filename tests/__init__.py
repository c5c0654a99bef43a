"""The fast tests: unit, property, scenario."""
