"""A search through all runs of a small farm: the real core, with free choice of clocks, disks, crashes and messages."""
