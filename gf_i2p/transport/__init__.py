"""Authenticated connections between servers and clients, by TLS and through I2P. No log and no farm state."""
