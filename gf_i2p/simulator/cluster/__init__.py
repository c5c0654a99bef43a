"""Simulation of servers with real cores on simulated networks, disks and clocks, and the checks of consensus."""
