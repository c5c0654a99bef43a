"""Programs that record the answers of real routers, for the tests."""
