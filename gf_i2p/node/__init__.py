"""The running node: drives the core with storage, transport and timers."""
