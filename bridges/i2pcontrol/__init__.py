"""Client of i2pcontrol: the router's status, and publishing by gf-i2p's extension of i2pcontrol."""
