"""Tests of the simulator: that it is repeatable, that it does what it says, and that it notices."""
