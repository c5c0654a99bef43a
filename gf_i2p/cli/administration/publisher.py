"""`gf-i2p publisher`: shows and chooses the publisher."""

from typing import Final

from gf_i2p.cli.administration.admin_arguments import Action
from gf_i2p.cli.administration.administer import make_command
from gf_i2p.cli.shared.command import Commands

COMMANDS: Final[Commands] = {
    "show": make_command(
        Action("publisher", "show", changes=False), "show the publisher, and why the other servers do not publish"
    ),
    "move": make_command(
        Action("publisher", "move", takes="server"), "have one server publish as long as that server can"
    ),
    "release": make_command(Action("publisher", "release"), "end the move: the farm chooses the publisher"),
    "publish-now": make_command(
        Action("publisher", "publish-now"), "have the publisher give its router a new set at once"
    ),
    "drain": make_command(
        Action("publisher", "drain", takes="server"), "have a server publish only when no other server can"
    ),
    "undrain": make_command(Action("publisher", "undrain", takes="server"), "end the drain of a server"),
}
