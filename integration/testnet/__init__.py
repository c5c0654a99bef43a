"""A private I2P network of real i2pd routers on this machine: another network id, separate namespaces, no reseeding."""
