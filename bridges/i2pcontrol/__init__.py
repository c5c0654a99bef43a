"""i2pcontrol as a client: the router's status, and publishing by our extension of i2pcontrol."""
