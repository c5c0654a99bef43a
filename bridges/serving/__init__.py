"""What `bridges.serving.bridge_server` is made of: HTTP, passwords and tokens, publications."""
