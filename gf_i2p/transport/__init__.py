"""Sockets: authenticated connections that carry requests and responses between servers and clients."""
