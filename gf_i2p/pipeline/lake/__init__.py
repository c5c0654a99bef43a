"""The lake: the paths of the tables, reading, writing and replacing of tables, and locks. This package has no job."""
