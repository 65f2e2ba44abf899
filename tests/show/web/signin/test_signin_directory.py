"""Signing in through a real directory (slapd): who it is, which groups; and what an attacker would type."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import directory_server
from directory_server import BASE, PASSWORD, SEARCHER, certificate
from fairlead.core.errors import ConfigError
from fairlead.show.web.people import accounts
from fairlead.show.web.people.store import Store
from fairlead.show.web.signin.ldap_directory import Directory, DirectoryError
from fairlead.show.web.web_settings import Ldap
from fairlead.store.lake import Lake
from people_serving import Site
from questions_site import build

pytestmark = pytest.mark.skipif(bool(directory_server.missing()), reason=directory_server.missing() or "there")
PEOPLE = f"uid={{name}},ou=people,{BASE}"


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[directory_server.Directory]:
    made = directory_server.Directory(tmp_path_factory.mktemp("d"))
    yield made
    made.close()


@pytest.fixture
def asked(slapd: directory_server.Directory) -> Callable[..., Directory]:
    def make(**more: Any) -> Directory:
        given = {"url": f"ldaps://localhost:{slapd.encrypted}", "ca": str(slapd.certificate), "user": PEOPLE}
        return Directory(Ldap(**{**given, **more}))

    return make


def searching(slapd: directory_server.Directory) -> dict[str, Any]:
    return {
        "user": "",
        "base": f"ou=people,{BASE}",
        "bind": SEARCHER,
        "bind_password_file": str(slapd.searcher),
        "group_base": f"ou=groups,{BASE}",
    }


def test_who_shows_the_password_is_known_by_the_entrys_name(asked: Any, slapd: directory_server.Directory) -> None:
    plain = {"url": f"ldap://localhost:{slapd.plain}"}
    for more in ({}, plain, searching(slapd), {**plain, **searching(slapd)}):
        directory = asked(**more)
        found = directory.check("ALICE", PASSWORD)
        assert found is not None
        assert found.name == "alice", "a directory does not tell a from A; jobs do"
        assert set(found.groups) == ({"staff", "p-climate"} if "bind" in more else set())
        assert directory.check("alice", "other words") is None
        assert directory.check("mallory", PASSWORD) is None
        hostile = directory.check("a*(b)\\c", PASSWORD)
        assert hostile is not None
        assert hostile.name == "a*(b)\\c"


@pytest.mark.parametrize("password", ["", "\0", PASSWORD + "\0"])
def test_an_empty_password_is_no_password(asked: Any, slapd: directory_server.Directory, password: str) -> None:
    for more in ({}, searching(slapd)):
        assert asked(**more).check("alice", password) is None


@pytest.mark.parametrize(
    "name",
    [
        "*",
        "ali*",
        "alice)(uid=*",
        "*)(|(uid=*",
        "alice,ou=people",
        "bob,ou=people,dc=example,dc=org",
        "alice\0",
        "\\61lice",
        "alice+uid=bob",
        " alice",
        "#alice",
        "x" * 300,
        f"alice,ou=people,{BASE}",
    ],
)
def test_what_is_typed_is_data(asked: Any, slapd: directory_server.Directory, name: str) -> None:
    for more in ({}, searching(slapd)):
        found = asked(**more).check(name, PASSWORD)
        assert found is None or (found.name == "alice" and name.strip() == "alice")


def test_only_the_directory_itself_is_asked(asked: Any, slapd: directory_server.Directory, tmp_path: Path) -> None:
    foreign, _ = certificate(tmp_path, "localhost")
    named, _ = certificate(tmp_path, "elsewhere.example.org")
    for more in (
        {"ca": str(foreign)},
        {"ca": ""},
        {"url": f"ldap://localhost:{slapd.plain}", "ca": str(foreign)},
        {"ca": str(named)},
        {"url": f"ldaps://ip6-localhost.invalid:{slapd.encrypted}"},
    ):
        with pytest.raises(DirectoryError):
            asked(**more).check("alice", PASSWORD)


def test_a_directory_that_says_nothing_is_given_up(asked: Any) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        for url in (f"ldap://127.0.0.1:{port}", f"ldaps://127.0.0.1:{port}"):
            with pytest.raises(DirectoryError):
                asked(url=url, timeout_s=0.3, start_tls=False).check("alice", PASSWORD)


def test_a_password_file_others_can_read_is_refused(
    asked: Any, slapd: directory_server.Directory, tmp_path: Path
) -> None:
    open_file = tmp_path / "open"
    open_file.write_text("x")
    open_file.chmod(0o644)
    with pytest.raises(ConfigError, match="read by others"):
        asked(**{**searching(slapd), "bind_password_file": str(open_file)})


def test_signing_in_makes_an_account_of_role_and_projects(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, slapd: directory_server.Directory
) -> None:
    lake: Lake = build(tmp_path_factory.mktemp("lake") / "lake")
    ldap = Ldap(
        url=f"ldaps://localhost:{slapd.encrypted}",
        ca=str(slapd.certificate),
        roles={"staff": "support"},
        project_prefix="p-",
        **searching(slapd),
    )
    site = Site(tmp_path / "state", lake, ldap=ldap)
    site.add("bob", "admin")  # an account of the server's own, of a name the directory has too
    told = site.browser().sign_in("Alice").json()
    assert (told["name"], told["role"], told["projects"]) == ("alice", "support", ["climate"])
    assert [way["kind"] for way in site.browser().get("signin").json()["ways"]] == ["ldap", "local"]
    assert site.browser().sign_in("alice", "other words").status_code == 401
    assert site.browser().sign_in("bob", way="ldap").status_code == 403, "it is not the directory's bob"
    assert site.browser().sign_in("bob", way="local").json()["role"] == "admin"
    assert site.browser().sign_in("a*(b)\\c").status_code == 403, "not a valid account name"
    with Store(site.folder) as store:
        accounts.change_account(store, "alice", disabled=True)
    assert site.browser().sign_in("alice").status_code == 403
    site.close()
    slapd_gone = Site(tmp_path / "other", lake, ldap=Ldap(url="ldaps://127.0.0.1:1", user=PEOPLE, timeout_s=0.3))
    slapd_gone.add("root", "admin")
    assert slapd_gone.browser().sign_in("alice").status_code == 503
    assert slapd_gone.browser().sign_in("root").status_code == 200, "accounts of the server's own still work"
    slapd_gone.close()
