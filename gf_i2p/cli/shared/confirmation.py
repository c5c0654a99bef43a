"""What cannot be undone is confirmed: by the farm's name, typed on a terminal or given as an option."""

from gf_i2p.cli.shared.errors import CommandError, Exit


def check_typed(farm: str) -> None:
    """Ask for the farm's name. Raises `CommandError` when something else is typed, or nothing (Ctrl-D)."""
    try:
        typed = input(f"Type the farm's name, {farm}, to go on: ")
    except EOFError as error:
        print()  # the cursor stands behind the question
        raise CommandError("the farm's name was not typed: nothing was changed", code=Exit.USAGE) from error
    check_name(typed, farm)


def check_name(given: str, farm: str) -> None:
    """Raise `CommandError` when this is not the farm's name."""
    if given != farm:
        raise CommandError("that is not the farm's name: nothing was changed", code=Exit.USAGE)
