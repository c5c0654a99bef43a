"""A simulator of whole farms, which runs in one thread and without real time.

Cores and wire bytes are real. Network, disks, clocks and routers are simulated.
One seed is one run: the same seed makes the same run, event by event, on every machine.
"""
