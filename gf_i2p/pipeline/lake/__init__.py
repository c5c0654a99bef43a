"""The lake: the paths of the tables, reading and writing of tables, and the locks of jobs. This package has no job."""
