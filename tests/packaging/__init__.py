"""The packages for operators, and the way to a release."""
