"""What is seen on real routers, in pytest.

To run them: `python -m integration.testnet run -- python -m pytest integration/scenarios`.
"""
