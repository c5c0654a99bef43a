"""What needs more than the fast tests: whole farms, real routers, other programs, benchmarks."""
