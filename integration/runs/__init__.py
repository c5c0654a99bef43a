"""Programs that are run by hand or by make, one file each. None of them is a test."""
