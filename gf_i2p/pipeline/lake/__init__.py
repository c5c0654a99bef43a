"""The lake: where its tables are, their schemas, and the locks of jobs. No job is here."""
