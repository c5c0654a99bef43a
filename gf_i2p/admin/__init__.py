"""What an operator asks a running node, over its local socket."""
