"""Tests of the pages for a monitoring system."""
