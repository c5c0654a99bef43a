"""Farms under farms: a leaf of type 7 is the master of another one. None may lead back to where it came from."""

from gf_i2p.farm.destinations import META_TYPE, Leaf


def objection(leaf: Leaf, master: bytes | None) -> str | None:
    """Say why a farm with this master (its hash; None: nobody knows it) does not list a leaf of type 7, or None."""
    if leaf.type == META_TYPE and master is not None and master in leaf.below:
        return "it is the master of a farm that leads back to this one's own master"
    return None
