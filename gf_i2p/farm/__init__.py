"""What the farm knows and decides: pure functions of its log."""
