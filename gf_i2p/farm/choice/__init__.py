"""Choice of the publisher, of the listed leaves and of their costs: pure functions of the farm's state."""
