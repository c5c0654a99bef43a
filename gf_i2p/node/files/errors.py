"""What can be wrong with a node's files, for the operator."""


class ConfigError(Exception):
    """The configuration cannot be used; the message names file and key, and says what was expected."""
