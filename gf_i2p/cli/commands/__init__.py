"""The commands of `gf-i2p` that are one module each. Larger ones have packages of their own beside this one."""
