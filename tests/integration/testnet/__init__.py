"""Tests of integration.testnet."""
