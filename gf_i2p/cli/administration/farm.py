"""`gf-i2p farm`: shows and sets the parameters of the whole farm."""

from typing import Final

from gf_i2p.cli.administration.admin_arguments import Action
from gf_i2p.cli.administration.administer import make_command
from gf_i2p.cli.shared.command import Commands

COMMANDS: Final[Commands] = {
    "show": make_command(
        Action("farm", "show", changes=False), "show the parameters, their ranges, and who changed each"
    ),
    "set": make_command(Action("farm", "set", takes="changes"), "change parameters"),
    "unset": make_command(Action("farm", "unset", takes="names"), "return parameters to their defaults"),
    "log": make_command(Action("farm", "log", changes=False), "show who made which change, and when"),
}
