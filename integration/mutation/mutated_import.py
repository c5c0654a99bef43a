"""Imports one module of the project with the change of a mutant; the files stay as they are."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from integration.mutation.rules import Mutant, mutated


class _Loader(importlib.abc.Loader):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def exec_module(self, module: ModuleType) -> None:
        path = self._mutant.module
        tree = mutated(Path(path).read_text(encoding="utf-8"), self._mutant.number)
        exec(compile(tree, path, "exec"), module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.name = mutant.module.removesuffix(".py").replace("/", ".")
        self._loader = _Loader(mutant)
        self._origin = mutant.module

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self._loader, origin=self._origin)


def install(mutant: Mutant) -> None:
    """Let the next import of the mutant's module give the changed one. The module must not be imported yet."""
    finder = _Finder(mutant)
    assert finder.name not in sys.modules, "a process of its own for each mutant"
    sys.meta_path.insert(0, finder)
