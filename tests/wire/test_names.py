import pytest

from gf_i2p.wire.names import check_name


@pytest.mark.parametrize("name", ["farm", "server-1", "client-a.b_C", "7", "-x", "a" * 64])
def test_a_name_comes_back(name: str) -> None:
    assert check_name("user name", name) == name


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "a" * 65, "a b", "a/b", "a:b", 'a"b', "a%41", "ä", "a\n", "٣"])
def test_what_a_path_or_a_quoted_string_would_have_to_escape_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a cluster name: use 1 to 64 letters"):
        check_name("cluster name", name)
