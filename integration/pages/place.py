"""Where the commands of a page run: on this machine, or in another system whose disk this process sees."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Place:
    """A system. Without arguments: this machine, for this process's user."""

    enter: tuple[str, ...] = ()
    """The words before a command that run the command there, as the user and with the variables of that place."""
    root: Path = Path("/")
    """The root directory of that place, by its path on this side."""
    user: int | None = None
    """The number of the user there; None: this process's user."""

    def new_directory(self) -> Path:
        """Make an empty directory that both sides reach; return its path on this side."""
        made = Path(tempfile.mkdtemp(prefix="gf-pages-", dir=None if self.root == Path("/") else self.root / "tmp"))
        self.give(made)
        return made

    def there(self, path: Path) -> Path:
        """Return the path there of a file on this side."""
        return Path("/") / path.relative_to(self.root)

    def give(self, path: Path) -> None:
        """Make the user of the place the owner of a file or a directory."""
        if self.user is not None:
            os.chown(path, self.user, -1)


HERE: Final = Place()
"""This machine, for this process's user."""
