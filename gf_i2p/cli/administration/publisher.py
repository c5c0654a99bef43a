"""`gf-i2p publisher`: who publishes, or serves, and who is to."""

from typing import Final

from gf_i2p.cli.administration.admin_arguments import Action
from gf_i2p.cli.administration.administer import command
from gf_i2p.cli.shared.command import Commands

COMMANDS: Final[Commands] = {
    "show": command(Action("publisher", "show", changes=False), "show who publishes, and why the others do not"),
    "move": command(Action("publisher", "move", takes="server"), "have a server publish as long as it can"),
    "release": command(Action("publisher", "release"), "take that back: the farm chooses"),
    "drain": command(Action("publisher", "drain", takes="server"), "have a server publish only when no other one can"),
    "undrain": command(Action("publisher", "undrain", takes="server"), "take that back"),
}
