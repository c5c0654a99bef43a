from gf_i2p.cli.shared.fitting import fit

ADDRESS = "qjwctoz2" + "a" * 44 + ".b32.i2p"


def test_what_fits_stays_as_it_is() -> None:
    text = f"leader   1 ({ADDRESS})\n\nservers"
    assert fit(text, 80) == text


def test_addresses_are_shortened_in_all_lines_so_that_columns_stay_in_line() -> None:
    text = f"    1  tcp://{ADDRESS}:80  this server\n    2  tcp://{ADDRESS}:80  connected, leader"
    assert fit(text, 80).splitlines() == [
        "    1  tcp://qjwctoz2….b32.i2p:80  this server",
        "    2  tcp://qjwctoz2….b32.i2p:80  connected, leader",
    ]


def test_a_long_line_goes_on_below_its_second_column() -> None:
    text = "trouble  the router does not answer: start the router, or look at its settings"
    assert fit(text, 40).splitlines() == [
        "trouble  the router does not answer:",
        "         start the router, or look at",
        "         its settings",
    ]
    assert all(len(line) <= 40 for line in fit(text, 40).splitlines())


def test_a_sentence_without_columns_goes_on_two_columns_to_the_right() -> None:
    assert fit("No leader is known: nothing can be committed.", 30).splitlines() == [
        "No leader is known: nothing",
        "  can be committed.",
    ]


def test_a_word_that_is_too_long_is_not_broken() -> None:
    assert fit("x" * 50, 40) == "x" * 50
    assert fit(f"    1  {'y' * 60}  connected", 40).splitlines() == ["    1", f"       {'y' * 60}", "       connected"]
