"""What a monitoring system asks a node: whether the node works, and its figures."""
