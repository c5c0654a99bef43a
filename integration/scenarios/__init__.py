"""What is seen on real routers, in pytest: `python -m integration.testnet run -- python -m pytest integration/scenarios`."""
