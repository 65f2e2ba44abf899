"""Names: functions are verb and object, values are nouns; each can be guessed without its file."""

from __future__ import annotations

import pytest

from package_modules import MODULES, PACKAGE, name_of, read_module

UNNAMED = {
    "core": 0,
    "store": 0,
    "see": 0,
    "explain": 1,
    "decide": 13,
    "steer": 0,
    "show": 0,
    "run": 0,
    "kit": 0,
}
"""Functions of each room whose name is still to be found; a number only goes down. Not `cli`: the functions there are
named after the commands they are."""

VERBS = frozenset(
    """
    abandon abort accept accepts access acknowledge acquire adapt add adjust admit adopt advance aggregate align
    allocate allow analyse annotate announce answer append apply are arrange arrive as ask assemble assert assess
    assign attach attribute authenticate authorise average await back backup balance begin bin bind bound
    bracket break bring broadcast buffer build calculate calibrate call can cancel cap carry cast catch change
    charge check chmod choose classify clean cleanup clear clip close cluster code collapse collect combine
    commit compact compare compile complete compose compress compute condemn configure confine confirm conform
    connect consume contain contains continue convert copy correct correlate count cover covers create credit
    cut daemonize deal debit decide declare decode decompress dedupe deduplicate defer define degrade delay
    delete deliver demote derive describe deserialize detach detect determine diagnose diff digest disable
    discard disconnect discover dispatch display distribute divide do does download drain draw drop dump embed
    emit empty enable encode end enforce enqueue enter enumerate erase escape estimate evaluate evict examine
    exchange exclude execute exists exit expand expect expire explain export express extend extract fail
    fallocate fetch fileno fill filter find finish fit fits fix flatten flock flush fold follow forecast foresee
    forget fork format forward free freeze from fsync fsyncdir gather generate get getattr getlk getlkw getxattr
    give grade grant group grow guard guess halt hand handle has hash heal hide hold holds hurry identify ignore
    import include index infer inflate ingest inherit init initialise inject insert inspect install instrument
    interleave intern interpolate interrupt intersect invalidate invert invoke is issue iterate join judge keep
    kill knows label launch lay learn leave lend lift limit link list listdir listen listxattr load locate lock
    log look lookup lose lower lseek main maintain make makedirs map mark mask match matches may measure merge
    migrate mirror mix mkdir mknod model monitor mount move multiply must name narrow needs negotiate normalise
    note notify number observe offer omit on open opendir order overlap pack pad page pair park parse partition
    pass pause perform permit persist pick pin place plan play plot poll pop populate post postpone pread
    predict prefer prefetch prepare present print probe process produce project promote propose prove publish
    pull punish purge push put pwrite query queue quote raise rank rate reach read readable readall readdir
    readdirplus readinto readlink reanalyse reap reattach rebalance rebuild recall receive recheck reclaim recognise
    recommend reconcile reconnect record recover redact rediagnose redirect redo reduce refer refine refresh
    refuse regenerate register regress rehash reject rejoin relabel relay release relink reload remap remember
    remove removexattr rename render renew renumber reopen reorder repair repeat replace replay reply report
    reproduce request require reread reschedule resend reserve reset reshape resize resolve respond restart
    restore restrict resume retire retrieve retry return reuse reverse revoke rewind rewrite rmdir roll rollback
    rotate round rouse route run sample sanitise save scale scan schedule score scrape screen scroll seal search seek
    seekable select send separate serialise serve serves set setattr setlk setlkw settle setup setxattr shape
    share shift shorten should show shrink shut sign signal silence simulate sketch skip sleep slice smooth
    snapshot solve sort spawn split spool spread stack stage stamp start stat state statfs step stop store
    stream stretch strip stripe submit subscribe substitute subtract suggest sum summarise supervise supports
    suppress suspend swap sweep switch symlink sync synthesise take tear tell terminate test throttle tie time
    to tokenise touch trace track train transfer transform translate transpose trim truncate try tune turn
    unbind undo unescape unify uninstall union unlink unload unlock unmount unpack unpin unquote unregister
    unsilence unsubscribe unwrap update upgrade upload use vacuum validate verify visit wait wake walk warm warn
    was watch weigh widen with withdraw wrap writable write yield
    """.split()  # noqa: SIM905
)
"""What a public function or method begins with: verbs, and the words of questions and conversions (`is`, `to`)."""

OF_LIBRARIES = {
    "connection_made",
    "connection_lost",
    "data_received",
    "timeout_keep_alive_handler",
    "startup",
    "shutdown",
}
"""Methods that asyncio and uvicorn call by these names."""

ALONE = {"main", "run"}
"""Functions of a module that need no object."""

PARTICIPLES = frozenset(
    """asked begun closed counted done drawn ended fed folded forgot found given gone got grown heard held joined kept
    known left let looked lost made met moved named one opened placed put reached said seen sent shown slept
    taken told used wanted went written""".split()  # noqa: SIM905
)
"""Words that name nothing as a module or class."""


@pytest.mark.parametrize("room", UNNAMED)
def test_a_function_is_a_verb_and_its_object(room: str) -> None:
    nameless = []
    seen = 0
    for path in sorted((PACKAGE / room).rglob("*.py")):
        for line, name, is_method, decorators in read_module(path).functions:
            if any(word in decorators for word in ("property", ".setter", "overload", "override")):
                continue
            seen += 1
            first, _, rest = name.partition("_")
            known = first in VERBS and (rest or is_method or name in ALONE)
            if not (known or name in OF_LIBRARIES or name.startswith("visit_")):
                nameless.append(f"{name_of(path)}:{line} {name}")
    assert seen > 20
    assert len(nameless) <= UNNAMED[room], (
        nameless,
        "begin with a verb, then say of what; a new verb of the field joins VERBS",
    )


def test_modules_and_classes_are_nouns() -> None:
    nameless = [name_of(path) for path in MODULES if path.stem in PARTICIPLES]
    nameless += [
        f"{name_of(path)}: {name}"
        for path in MODULES
        for name in read_module(path).classes
        if name.strip("_").lower() in PARTICIPLES
    ]
    assert not nameless, "say what it holds"
