"""I2P's netDb structures: destinations, keys, lease sets, RouterInfos. Bytes in, values out; no I/O and no clock."""
