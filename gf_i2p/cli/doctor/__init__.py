"""`gf-i2p doctor`: finds faults of a node, its router and its peers, and says how to mend each fault."""
