"""A Garlic Farm node: Raft between I2P routers, as I2P proposal 150 describes it."""

__version__ = "0.1.0"
