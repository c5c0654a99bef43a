"""I2CP, the routers' protocol for clients: publishes lease sets, serves destinations. Streams are in `streaming/`."""
