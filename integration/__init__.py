"""What needs more than the tests: whole farms, other programs beside ours, benchmarks."""
