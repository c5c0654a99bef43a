"""Makes the pictures of the documentation, from the program as it runs."""
