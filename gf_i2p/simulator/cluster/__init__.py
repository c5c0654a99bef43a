"""Servers with real cores on a simulated network, disks and clocks; checks of consensus."""
