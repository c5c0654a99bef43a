"""`gf-i2p leaves`: which leaves the farm publishes, and at what cost."""

from typing import Final

from gf_i2p.cli.administration.admin_arguments import Action
from gf_i2p.cli.administration.administer import command
from gf_i2p.cli.shared.command import Commands

COMMANDS: Final[Commands] = {
    "list": command(
        Action("leaves", "list", changes=False), "show all leaves that somebody names, and why one is not listed"
    ),
    "exclude": command(Action("leaves", "exclude", takes="leaf"), "have a leaf left out, whatever its router says"),
    "include": command(Action("leaves", "include", takes="leaf"), "take that back"),
    "cost": command(Action("leaves", "cost", takes="cost"), "have a leaf listed at this cost"),
}
