"""What `bridges.serve` is made of: HTTP, passwords and tokens, publications."""
