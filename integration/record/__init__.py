"""Programs that record what real routers say, for the tests."""
