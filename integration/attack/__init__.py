"""A hostile harness: strangers, clients and a seized server attack a farm of real processes on loopback."""
