"""How servers and leaf members come into a farm, and how a server notices its own removal."""
