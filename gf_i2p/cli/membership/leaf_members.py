"""`gf-i2p members` for leaf members, which may post without being a server."""

import argparse
from typing import Any

from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.local_client import Ask, reload_node
from gf_i2p.node.membership import leaf_invitation


def invite(options: argparse.Namespace, ask: Ask) -> Answer:
    """`members invite-leaf`: write the files for a new leaf member, and the file for the other servers.

    The directory's server knows the member at once. The other servers know the member after `members accept`.
    """
    invitation = leaf_invitation.invite_and_accept(options.directory, options.into, options.id)
    reload_note, reloaded, _ = reload_node(options.directory, ask)
    text = (
        f"wrote {invitation.member}\nwrote {invitation.accept}\n{options.directory} knows the member now; "
        f"{reload_note}\n\n"
        f"1. On each other server of the farm:\n     gf-i2p members accept DIR {invitation.accept.name}\n"
        f"   {invitation.accept.name} is no secret, but let nobody change it on the way.\n"
        f"2. Bring {invitation.member.name} to the machine of the member's router, set [publish] leaf in leaf.toml, "
        "and run there:\n"
        f"     gf-i2p leaf run {invitation.member.name}"
    )
    if invitation.unknown:
        text += (
            f"\n   The member cannot verify the servers {list(invitation.unknown)}: {options.directory} has no "
            "fingerprints of these servers, and no CA. The member needs only one server; to add these, give "
            "leaf.toml their [[servers]] tables."
        )
    data = {
        "id": invitation.id,
        "member": str(invitation.member),
        "accept": str(invitation.accept),
        "unknown": list(invitation.unknown),
        "reloaded": reloaded,
    }
    return Answer(data, text)


def accept(options: argparse.Namespace, ask: Ask) -> Answer:
    """`members accept`: take an invitation's leaf member into the files of this node."""
    changed = leaf_invitation.accept(options.directory, options.file)
    reload_note, reloaded, pending = reload_node(options.directory, ask) if changed else ("", False, list[str]())
    first_line = f"accepted; {reload_note}" if changed else "the member was known already"
    return Answer(
        {"changed": changed, "dropped": [], "reloaded": reloaded, "needs_restart": pending},
        f"{first_line}\n{options.file} is no longer needed when all servers have accepted.",
    )


def remove(options: argparse.Namespace, ask: Ask) -> Answer:
    """`members remove-leaf`: from now on this server refuses the member, and ends the member's connections."""
    changed = leaf_invitation.remove(options.directory, options.id)
    reload_note, reloaded, _ = reload_node(options.directory, ask) if changed else ("", False, list[str]())
    text = f"{options.directory} does not know {leaf_invitation.user_of(options.id)}"
    if changed:
        text = (
            f"{options.directory} refuses {leaf_invitation.user_of(options.id)} from now on; {reload_note}\n"
            "Do the same on each other server. The farm drops the member's leaves when the "
            "member's last record is too old."
        )
    return Answer({"changed": changed, "reloaded": reloaded}, text)


def described(members: list[dict[str, Any]]) -> list[str]:
    """Describe the leaf members that `/v1/administration` lists, one line each."""
    lines = []
    for member in members:
        leaves = ", ".join(f"{each['address']}{'' if each['up'] else ' (down)'}" for each in member["leaves"])
        age = "record of unknown age" if member["age"] is None else f"record of {member['age']:.0f} s ago"
        lines.append(f"{member['id']:>10}  leaf only, {age}, {leaves or 'no leaf'}")
    return lines
