"""Tests of the simulator: the simulator is repeatable, keeps to the settings, and notices faults."""
