"""Programs that people or make run, one file each. None of these is a test."""
