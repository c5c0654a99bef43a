"""The login at a Java router's SAM: USER and PASSWORD in every HELLO."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.errors import LoginRefusedError, RouterRefusedError
from bridges.sam.client import Sam
from tests.bridges.sam.scripted_sam import KEYS, PEER, scripted, words_of
from tests.transport.harness import soon

USER, PASSWORD = "node", "open=sesame;"


async def test_each_connection_logs_in() -> None:
    async with scripted() as there:
        there.login = (USER, PASSWORD)
        mine = replace(there.sam, user=USER, password=PASSWORD)
        await soon(mine.probe())
        await soon(mine.generate())
        await soon(mine.lookup(PEER))
        session = await soon(mine.session(KEYS))
        await soon(session.forward("127.0.0.1", 4150))
        (await soon(session.connect_socket(PEER))).close()
        session.close()
        hellos = {connection.heard[0] for connection in there.connections}
    assert len(there.connections) == 6
    assert hellos == {f"HELLO VERSION MIN=3.1 MAX=3.1 USER={USER} PASSWORD={PASSWORD}"}


async def test_without_a_login_nothing_more_is_said() -> None:
    async with scripted() as there:
        await soon(there.sam.probe())
        assert there.connections[0].heard == ["HELLO VERSION MIN=3.1 MAX=3.1"]


async def test_a_missing_login_is_named() -> None:
    async with scripted() as there:
        there.login = (USER, PASSWORD)
        with pytest.raises(LoginRefusedError) as caught:
            await soon(there.sam.probe())
    assert "said I2P_ERROR (USER and PASSWORD required) to HELLO VERSION" in str(caught.value)
    assert "set the user name and password that Java has for SAM" in str(caught.value)


async def test_a_wrong_login_is_named_and_not_shown() -> None:
    async with scripted() as there:
        there.login = (USER, "other")
        with pytest.raises(LoginRefusedError) as caught:
            await soon(replace(there.sam, user=USER, password=PASSWORD).lookup(PEER))
    assert f"(Authorization failed) to HELLO VERSION: check user {USER} and its password" in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("message", ["Authorization of open=sesame; failed", "USER=node PASSWORD=open=sesame; ?"])
async def test_a_router_that_repeats_the_password_does_not_get_it_shown(message: str) -> None:
    answer = f'HELLO REPLY RESULT=I2P_ERROR MESSAGE="{message}"\n'.encode()
    async with scripted(HELLO_VERSION=answer) as there:
        with pytest.raises(LoginRefusedError) as caught:
            await soon(replace(there.sam, user=USER, password=PASSWORD).probe())
    assert PASSWORD not in str(caught.value)


async def test_another_refusal_is_not_about_the_login() -> None:
    answer = b'HELLO REPLY RESULT=I2P_ERROR MESSAGE="too many connections"\n'
    async with scripted(HELLO_VERSION=answer) as there:
        with pytest.raises(RouterRefusedError) as caught:
            await soon(replace(there.sam, user=USER, password=PASSWORD).probe())
    assert not isinstance(caught.value, LoginRefusedError)


@pytest.mark.parametrize(
    ("login", "expected"),
    [
        ({"user": "node"}, "belong together"),
        ({"password": "secret"}, "belong together"),
        ({"user": "", "password": "secret"}, "user name must have 1 to 255"),
        ({"user": "a node", "password": "secret"}, "user name must have 1 to 255"),
        ({"user": "node", "password": ""}, "password must have 1 to 255"),
        ({"user": "node", "password": "a secret"}, "password must have 1 to 255"),
        ({"user": "node", "password": "secret\nQUIT"}, "password must have 1 to 255"),
        ({"user": "node", "password": 'secret"'}, "password must have 1 to 255"),
        ({"user": "node", "password": "secret\\"}, "password must have 1 to 255"),
        ({"user": "node", "password": "sécret"}, "password must have 1 to 255"),
        ({"user": "node", "password": "secret" * 50}, "password must have 1 to 255"),
    ],
    ids=str,
)
def test_a_login_that_cannot_be_sent_is_refused_without_being_shown(login: dict[str, str], expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as caught:
        Sam("127.0.0.1", **login)  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


def test_a_password_goes_to_this_machine_only() -> None:
    with pytest.raises(ValueError, match=r"would go to 192\.0\.2\.1 in the clear"):
        Sam("192.0.2.1", user=USER, password=PASSWORD)
    assert Sam("::1", user=USER, password=PASSWORD).user == USER
    assert Sam("192.0.2.1").user is None


def test_a_password_is_not_shown() -> None:
    mine = Sam("127.0.0.1", user=USER, password=PASSWORD)
    assert PASSWORD not in f"{mine} {mine!r}"


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_hello_is_one_line_that_is_read_back_as_it_was_meant(user: str, password: str) -> None:
    try:
        line = Sam("127.0.0.1", user=user, password=password).hello()
    except ValueError:
        return
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert words_of(line.decode()) == {"MIN": "3.1", "MAX": "3.1", "USER": user, "PASSWORD": password}
