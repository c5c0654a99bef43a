"""Scenarios on real routers, in pytest.

To run the scenarios: `python -m integration.testnet run -- python -m pytest integration/scenarios`.
"""
