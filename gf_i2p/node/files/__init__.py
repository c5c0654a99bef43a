"""The files in the directory of a node, a client or a leaf member. Nothing here needs a running node."""
