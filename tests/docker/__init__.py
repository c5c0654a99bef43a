"""Static checks of `docker/`."""
