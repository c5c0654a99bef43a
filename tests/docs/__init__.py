"""Tests of the documentation pages: the commands that they show."""
