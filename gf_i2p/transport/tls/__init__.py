"""Connections by TLS 1.3 over TCP, and the certificates for them."""
