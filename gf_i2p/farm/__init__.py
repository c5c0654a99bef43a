"""The farm's state and decisions: pure functions of the farm's log. No I/O and no clock."""
