"""Whole farms in one thread and no real time: real cores and wire bytes; simulated network, disks, clocks and routers.

One seed is one run: the same seed gives the same run, event by event, on every machine.
"""
