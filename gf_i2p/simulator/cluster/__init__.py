"""Servers with real cores on a made-up network, disks and clocks; checks of consensus."""
