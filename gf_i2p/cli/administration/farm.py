"""`gf-i2p farm`: what is set for the whole farm, and who has changed it."""

from typing import Final

from gf_i2p.cli.administration.admin_arguments import Action
from gf_i2p.cli.administration.administer import command
from gf_i2p.cli.shared.command import Commands

COMMANDS: Final[Commands] = {
    "show": command(Action("farm", "show", changes=False), "show the parameters, their ranges, and who changed them"),
    "set": command(Action("farm", "set", takes="changes"), "change parameters"),
    "unset": command(Action("farm", "unset", takes="names"), "have parameters as they are by default"),
    "log": command(Action("farm", "log", changes=False), "show who changed what, and when"),
}
