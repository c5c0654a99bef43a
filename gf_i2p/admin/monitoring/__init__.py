"""The pages that a monitoring system asks: whether a node works, and its figures."""
