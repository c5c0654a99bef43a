"""Tests of the pure and the quick parts of `integration/`: nothing here starts a farm or another program's server."""
