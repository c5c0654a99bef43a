"""The systems that `python -m integration.bench` measures: how to start, ask, kill and watch each."""
