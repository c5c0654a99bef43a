"""`gf-i2p leaves`: shows and sets which leaves the farm publishes, and at which cost."""

from typing import Final

from gf_i2p.cli.administration.admin_arguments import Action
from gf_i2p.cli.administration.administer import make_command
from gf_i2p.cli.shared.command import Commands

COMMANDS: Final[Commands] = {
    "list": make_command(
        Action("leaves", "list", changes=False), "show all leaves that anybody reports, and why a leaf is not listed"
    ),
    "exclude": make_command(
        Action("leaves", "exclude", takes="leaf"), "leave a leaf out of the published set, whoever reports the leaf"
    ),
    "include": make_command(Action("leaves", "include", takes="leaf"), "end the exclusion of a leaf"),
    "cost": make_command(Action("leaves", "cost", takes="cost"), "list a leaf at this cost"),
}
