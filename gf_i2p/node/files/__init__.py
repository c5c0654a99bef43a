"""The files in the directory of a node, a client or a leaf-only member. No running node is needed here."""
