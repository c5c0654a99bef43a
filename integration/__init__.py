"""Tests beyond the fast ones: whole farms, real routers, other programs, benchmarks."""
