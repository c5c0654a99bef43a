"""The files in `docker/`, built and run for real: with Docker where an engine runs, otherwise with podman.

`make test-docker` is `__main__.py`, which finds the engine (`engine.py`). Docker is used unchanged, and is told to take
down the containers at the end (`engine_run.py`). Podman (4.3 or newer, as root) runs in namespaces of its own, where
`podman_run.py` is the first process and `podman.py` makes podman work. So podman reaches none of this machine's
containers and networks, and everything ends with that first process. No registry is asked: debootstrap makes the base
image (`base_image.py`). A running farm is a `Project`, seen from outside by `container_farm.py`.

A pass with podman shows that the files work with podman and a stand-in for Debian's image, and no more.
"""
