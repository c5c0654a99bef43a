"""Simulation of hours of a farm on a given log, without elections; checks of the publisher choice and of publishing."""
