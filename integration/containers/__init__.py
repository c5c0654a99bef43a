"""The files in `docker/`, built and run for real: with Docker where an engine runs, otherwise with podman.

`make test-docker` is `__main__.py`, which finds the engine (`engine.py`). Docker is used as it is, and told to take
down what was started (`outside.py`). Podman (4.3 or newer, as root) runs in namespaces of its own, where `inside.py`
is the first process and `podman.py` makes it work: nothing reaches this machine's own containers and networks, and all
ends with that first process. No registry is asked: the base image is made by debootstrap (`base.py`). A farm that runs
is a `Project`, seen from outside by `farm.py`.

A pass with podman says that the files work with podman and a stand-in for Debian's image, and no more.
"""
