"""A Garlic Farm node: Raft between I2P routers, as I2P proposal 150 describes it."""

try:
    from gf_i2p._version import version  # the build writes this file, by the git tag
except ModuleNotFoundError:  # the source as it stands in git
    version = "0.0"

__version__: str = version
