"""Accounts, sessions, tokens, links and the log as they are kept: only hashes, across kills and wrong clocks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.core.errors import ConfigError, LakeError, UsageError
from fairlead.explain.questions.lake_queries import Run
from fairlead.show.web.people import accounts, audit, credentials
from fairlead.show.web.people.expiry_clock import ExpiryClock
from fairlead.show.web.people.passwords import Passwords, check_password
from fairlead.show.web.people.store import FILE, ConflictError, NobodyError, Store
from waiting import PATIENCE_S

HOUR = 3600 * 10**9
LIMITS = {"idle_ns": 2 * HOUR, "longest_ns": 10 * HOUR}


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000 * 10**9
        self.steady = 0

    def on(self, hours: float) -> None:
        """Time passes."""
        self.now += int(hours * HOUR)
        self.steady += int(hours * HOUR)

    def course(self, begin_ns: int = 0) -> ExpiryClock:
        return ExpiryClock(lambda: self.now, begin_ns, lambda: self.steady)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Store:
    return Store(tmp_path, course=clock.course())


def test_the_file_is_its_owners_and_no_secret_is_in_it(store: Store) -> None:
    accounts.add_account(store, "alice", password=Passwords(8 << 20, 1).hash("four words are enough"))
    secrets = [
        credentials.begin_credential_session(store, "alice", "local"),
        credentials.create_token_credential(store, "alice", title="ci", scopes=("read",), lasts_ns=HOUR)[0],
        credentials.create_link_credential(store, "alice", Run("c", "7", 1), HOUR)[0],
        credentials.create_welcome_credential(store, "alice"),
    ]
    assert store.path.stat().st_mode & 0o777 == 0o600
    written = b"".join(path.read_bytes() for path in store.path.parent.iterdir())
    for secret in [*secrets, "four words are enough"]:
        assert secret.encode() not in written
        assert secret[4:].encode() not in written
    assert all(len(secret) > 43 for secret in secrets)


def test_what_was_committed_survives_kill_9(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path\n"
        "from fairlead.show.web.people.store import Store; from fairlead.show.web.people import accounts, credentials\n"
        "store = Store(Path(sys.argv[1])); accounts.add_account(store, 'alice')\n"
        "print(credentials.begin_credential_session(store, 'alice', 'local'), flush=True)\n"
        "store._base.execute('BEGIN IMMEDIATE'); store.execute(\"DELETE FROM account\"); sys.stdin.read()\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdin is not None
    with running.stdout, running.stdin:
        secret = running.stdout.readline().strip()
        os.kill(running.pid, signal.SIGKILL)
        running.wait(PATIENCE_S)
    with Store(tmp_path) as again:
        held = credentials.find_credential_session(again, secret, **LIMITS)
        assert held is not None
        assert held.name == "alice"


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    with Store(tmp_path) as writing, Store(tmp_path) as reading:
        accounts.add_account(writing, "alice")
        with writing.change():
            accounts.add_account(writing, "bob")
            assert [one.name for one in accounts.list_accounts(reading)] == ["alice"]
        assert [one.name for one in accounts.list_accounts(reading)] == ["alice", "bob"]


def test_what_another_process_changes_is_seen_by_all_who_have_the_file_open(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\nfrom fairlead.show.web.people.store import Store\n"
        "from fairlead.show.web.people import accounts\n"
        "with Store(Path(sys.argv[1])) as store: accounts.add_account(store, sys.argv[2])\n"
    )
    with Store(tmp_path) as first, Store(tmp_path) as second:
        for name in ("alice", "bob"):
            subprocess.run([sys.executable, "-c", script, str(tmp_path), name], check=True, timeout=PATIENCE_S)
            assert accounts.find_account(first, name) is not None
            assert accounts.find_account(second, name) is not None


def test_a_file_of_a_newer_fairlead_or_of_something_else_is_told(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match="newer"):
        Store(tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / FILE).write_bytes(b"no database" * 500)
    with pytest.raises(LakeError):
        Store(tmp_path / "x")
    with pytest.raises(LakeError, match="no accounts"):
        Store(tmp_path / "y", create=False)


# Time


def test_a_session_ends_when_unused_and_after_its_longest_time(store: Store, clock: Clock) -> None:
    accounts.add_account(store, "alice")
    unused, used = (
        credentials.begin_credential_session(store, "alice", "local"),
        credentials.begin_credential_session(store, "alice", "local"),
    )
    for _ in range(9):
        clock.on(1)
        credentials.record_credential_use(store, "session", credentials.hash_credential_secret(used))
    assert credentials.find_credential_session(store, unused, **LIMITS) is None
    assert credentials.find_credential_session(store, used, **LIMITS) is not None
    clock.on(1)
    credentials.record_credential_use(store, "session", credentials.hash_credential_secret(used))
    assert credentials.find_credential_session(store, used, **LIMITS) is None


def test_a_clock_set_back_keeps_nothing_alive(tmp_path: Path, clock: Clock, store: Store) -> None:
    accounts.add_account(store, "alice")
    secret = credentials.begin_credential_session(store, "alice", "local")
    link, _ = credentials.create_link_credential(store, "alice", Run(None, "7", None), 3 * HOUR)
    clock.now -= 1000 * HOUR  # the clock is set back while the process runs
    clock.on(1.9)
    assert credentials.find_credential_session(store, secret, **LIMITS) is not None
    clock.on(0.2)
    assert credentials.find_credential_session(store, secret, **LIMITS) is None
    accounts.add_account(store, "bob")  # whatever is written says how far time had come
    again = Store(tmp_path, wall=lambda: clock.now)  # a new process, the clock still wrong
    assert credentials.find_credential_session(again, secret, **LIMITS) is None
    assert credentials.find_link_credential(again, link) is not None
    clock.on(1)
    assert credentials.find_link_credential(store, link) is None
    shown = store.course.to_wall_clock(store.now)
    assert shown == clock.now


# Accounts


def test_disabling_ends_everything_at_once_and_for_good(store: Store) -> None:
    accounts.add_account(store, "alice")
    session = credentials.begin_credential_session(store, "alice", "local")
    token, _ = credentials.create_token_credential(store, "alice", title="t", scopes=("read",), lasts_ns=HOUR)
    link, _ = credentials.create_link_credential(store, "alice", Run(None, "7", None), HOUR)
    welcome = credentials.create_welcome_credential(store, "alice")
    accounts.change_account(store, "alice", disabled=True)
    for _ in range(2):
        assert credentials.find_credential_session(store, session, **LIMITS) is None
        assert credentials.find_token_credential(store, token) is None
        assert credentials.find_link_credential(store, link) is None
        assert credentials.use_welcome_credential(store, welcome) is None
        accounts.change_account(store, "alice", disabled=False)


def test_the_last_administrator_cannot_go(store: Store) -> None:
    accounts.add_account(store, "root", role="admin")
    accounts.add_account(store, "second", role="admin")
    accounts.change_account(store, "second", disabled=True)
    for attempt in (
        lambda: accounts.remove_account(store, "root"),
        lambda: accounts.change_account(store, "root", role="user"),
        lambda: accounts.change_account(store, "root", disabled=True),
    ):
        with pytest.raises(ConflictError, match="last administrator"):
            attempt()
    assert accounts.get_account(store, "root").role == "admin"
    accounts.change_account(store, "second", disabled=False)
    accounts.remove_account(store, "root")
    with pytest.raises(NobodyError):
        accounts.get_account(store, "root")


@pytest.mark.parametrize("name", ["", " ", "a b", "a:b", "link:1", "a/b", "a\nb", "-a", "x" * 200, "a\0"])
def test_names_that_can_be_nobodys_are_refused(store: Store, name: str) -> None:
    with pytest.raises(UsageError):
        accounts.add_account(store, name)


def test_who_comes_from_elsewhere_takes_nobodys_name(store: Store) -> None:
    accounts.add_account(store, "root", role="admin")
    with pytest.raises(ConflictError, match="is taken"):
        accounts.admit_account(store, "root", "oidc", subject="s1")
    first = accounts.admit_account(store, "alice", "oidc", subject="s1", role="support", projects=("p",))
    assert (first.role, first.projects) == ("support", ("p",))
    with pytest.raises(ConflictError):  # the provider gave the name to somebody else
        accounts.admit_account(store, "alice", "oidc", subject="s2")
    with pytest.raises(ConflictError):
        accounts.admit_account(store, "alice", "ldap")
    accounts.change_account(store, "alice", way="ldap")
    assert accounts.admit_account(store, "alice", "ldap").role == "support"


def test_a_welcome_key_is_good_once_and_for_an_hour(store: Store, clock: Clock) -> None:
    first, second = (
        credentials.create_welcome_credential(store, "admin"),
        credentials.create_welcome_credential(store, "admin"),
    )
    assert credentials.use_welcome_credential(store, first) is None, "a newer one ends it"
    assert credentials.use_welcome_credential(store, second) == "admin"
    assert credentials.use_welcome_credential(store, second) is None
    assert accounts.get_account(store, "admin").role == "admin"
    late = credentials.create_welcome_credential(store, "admin")
    clock.on(1.01)
    assert credentials.use_welcome_credential(store, late) is None


def test_of_tokens_and_links_there_are_not_endlessly_many(store: Store) -> None:
    accounts.add_account(store, "alice")
    for _ in range(50):
        credentials.create_token_credential(store, "alice", title="t", scopes=("read",), lasts_ns=HOUR)
    with pytest.raises(ConflictError, match="50 tokens"):
        credentials.create_token_credential(store, "alice", title="t", scopes=("read",), lasts_ns=HOUR)
    for _ in range(110):
        credentials.begin_credential_session(store, "alice", "local")
    assert store.select_rows("SELECT count(*) FROM session")[0][0] == 100


def test_the_log_pages_and_forgets(store: Store, clock: Clock) -> None:
    for number in range(199):
        audit.write_audit_entry(store, "alice", "sign in", f"\x1b[2J{number}", keep_ns=HOUR)
    pages = [audit.list_audit_entries(store, limit=50)]
    while len(pages[-1]) == 50:
        pages.append(audit.list_audit_entries(store, limit=50, before=pages[-1][-1].number))
    assert [one.number for page in pages for one in page] == list(range(199, 0, -1))
    assert "\x1b" not in pages[0][0].what
    clock.on(2)
    audit.write_audit_entry(store, "bob", "sign in", keep_ns=HOUR)
    assert [one.who for one in audit.list_audit_entries(store)] == ["bob"]


# Passwords


def test_passwords_are_hashed_anew_by_newer_parameters() -> None:
    old, new = Passwords(8 << 20, 1), Passwords(9 << 20, 1)
    kept = old.hash("four words are enough")
    assert kept.startswith("$argon2id$")
    assert old.check(kept, "four words are enough") == (True, None)
    good, newer = new.check(kept, "four words are enough")
    assert good
    assert newer is not None
    assert new.check(newer, "four words are enough") == (True, None)
    assert new.check(kept, "other words") == (False, None)
    assert new.check(None, "the password of nobody") == (False, None), "nobody's is nobody's"
    assert new.check("no hash", "x") == (False, None)


@pytest.mark.parametrize("text", ["short", "alice_alice", "aaaaaaaaaaaa", "x" * 2000])
def test_passwords_that_are_guessed_at_once_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        check_password(text, "Alice_alice")
