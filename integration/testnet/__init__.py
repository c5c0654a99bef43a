"""A private I2P network of real i2pd routers on this machine: its own network id, its own namespaces, no reseeding."""
