"""Whole farms in one thread and no real time: real cores and wire bytes; network, disks, clocks, routers made up.

One seed is one run: the same seed gives the same run, event by event, on every machine.
"""
