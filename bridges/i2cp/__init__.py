"""I2CP, the routers' own protocol for clients: the way by which a Meta lease set gets into the netDb."""
