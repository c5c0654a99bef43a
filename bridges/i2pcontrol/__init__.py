"""Client of i2pcontrol: the router's status, and publishing by our extension of i2pcontrol."""
