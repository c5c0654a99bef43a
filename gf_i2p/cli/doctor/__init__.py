"""`gf-i2p doctor`: what is right and wrong about a node, its router and its peers, and what mends it."""
