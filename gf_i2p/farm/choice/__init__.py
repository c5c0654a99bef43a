"""Who publishes, which leaves are listed, and at what cost: pure functions of the farm's state."""
