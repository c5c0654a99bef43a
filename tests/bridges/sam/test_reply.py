"""The parts of a SAM reply that may be shown: bridges/sam/reply.py."""

from bridges.sam.reply import message_of, parse_reply, printable, result_of


def test_a_message_is_shown_without_control_characters_keys_and_the_password() -> None:
    reply = parse_reply(b'HELLO REPLY RESULT=I2P_ERROR MESSAGE="no \x07secret ' + b"A" * 60 + b'"\n')
    assert reply is not None
    assert result_of(reply) == "I2P_ERROR"
    assert message_of(reply, secret="secret") == "no ... ..."
    assert message_of(reply, secret=None) == "no secret ..."


def test_no_password_comes_together_when_control_characters_are_left_out() -> None:
    reply = parse_reply(b'HELLO REPLY RESULT=I2P_ERROR MESSAGE="sec\x00ret"\n')
    assert reply is not None
    assert message_of(reply, secret="secret") == "..."


def test_what_is_no_reply_is_none() -> None:
    assert [parse_reply(line) for line in (b"", b"HELLO REPLY", b"\xff \xff \xff")] == [None, None, None]


def test_a_text_is_cut() -> None:
    assert len(printable("a b " * 100)) == 200
