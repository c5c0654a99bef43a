"""The lake: the places of its tables, their schemas, and the locks of jobs. No job is here."""
