"""Scenarios on real routers, in pytest.

`make scenarios` runs them, on a private network.
"""
