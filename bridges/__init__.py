"""Router bridges: the node's access to a router, over i2pcontrol, I2CP and SAM. No bridge knows Raft."""
