"""Snapshots that an operator keeps, and a farm that begins anew when its majority is lost."""
