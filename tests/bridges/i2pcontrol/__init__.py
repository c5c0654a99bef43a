"""Tests of bridges.i2pcontrol.router_status."""
