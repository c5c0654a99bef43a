"""Router bridges: what the node asks of a router, over i2pcontrol, I2CP and SAM. No bridge knows Raft."""
