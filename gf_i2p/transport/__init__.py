"""Authenticated connections between servers and clients, by TLS and through I2P.

This package holds neither the log nor the farm's state.
"""
