"""What I2P's netDb holds: destinations, keys, lease sets; bytes in, values out, no I/O and no clock."""
