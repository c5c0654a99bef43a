"""Snapshots that an operator keeps, and a farm that begins anew after the loss of its majority."""
