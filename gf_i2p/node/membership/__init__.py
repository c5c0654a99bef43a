"""How servers and leaf-only members come into a farm, and how a server notices that it was removed."""
