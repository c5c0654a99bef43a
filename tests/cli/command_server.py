"""Runs commands of `gf-i2p`, each in a fork of this process: it has imported all commands, so each starts at once.

A request is one message on the socket that is standard input: the words of the command, its environment and directory,
and four descriptors. Three are the standard streams of the command. The fourth gets two lines: the command's pid, then
its exit status. This process ends when the socket does.
"""

import gc
import json
import os
import selectors
import signal
import socket
import sys
from importlib import import_module
from typing import Final

from gf_i2p.cli.main import COMMANDS, main

MAX_REQUEST: Final = 150_000
_STREAMS: Final = 3


class CommandServer:
    """Forks for each request."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)

    def serve(self) -> list[str] | None:
        """Return the words of the command in a fork, and None in the server at the end of the socket."""
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._tell_the_end(key.fd, *key.data)
                    continue
                message, descriptors, _, _ = socket.recv_fds(self._requests, MAX_REQUEST, _STREAMS + 1)
                if not message:
                    return None
                pid = os.fork()
                if pid == 0:
                    return self._become(json.loads(message), descriptors)
                answer = descriptors.pop()
                for descriptor in descriptors:
                    os.close(descriptor)
                os.write(answer, f"{pid}\n".encode())
                self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, answer))

    def _tell_the_end(self, process: int, pid: int, answer: int) -> None:
        self._selector.unregister(process)
        os.close(process)
        _, status = os.waitpid(pid, 0)
        os.write(answer, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(answer)

    def _become(self, request: dict[str, object], descriptors: list[int]) -> list[str]:
        """Take on the streams, the environment and the directory of the request; return its words."""
        words, environment = request["words"], request["environment"]
        assert isinstance(words, list)
        assert isinstance(environment, dict)
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                os.close(key.fd)
                os.close(key.data[1])
        self._selector.close()
        self._requests.close()
        for number, descriptor in enumerate(descriptors[:_STREAMS]):
            os.dup2(descriptor, number)
        for descriptor in descriptors:
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(str(request["directory"]))
        return words


def _serve() -> int:
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)  # so no descriptor of a request gets the number of a standard stream
    os.dup2(null, 0)
    os.close(null)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    for entry in COMMANDS.values():
        import_module(entry.module)
    gc.freeze()  # a fork then copies less memory
    words = CommandServer(requests).serve()
    if words is None:
        return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return main(words)


if __name__ == "__main__":
    sys.exit(_serve())
