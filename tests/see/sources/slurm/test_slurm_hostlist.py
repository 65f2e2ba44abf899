"""Host lists: what a plain folding writes is expanded back; anything else is an error, in bounded time and memory."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.see.sources.node_lists import NodeListError
from fairlead.see.sources.slurm.hostlist import expand_hostlist

prefixes = st.from_regex(r"\A[a-z]([a-z0-9.-]{0,5}[a-z.-])?\Z")


def folded(prefix: str, numbers: list[int], width: int) -> str:
    """`prefix` with runs of equally padded numbers in brackets, as Slurm writes them."""
    parts: list[str] = []
    start = 0
    for i, n in enumerate(numbers):
        last = i + 1 == len(numbers)
        if last or numbers[i + 1] != n + 1:
            low, high = f"{numbers[start]:0{width}d}", f"{n:0{width}d}"
            parts.append(low if low == high else f"{low}-{high}")
            start = i + 1
    return f"{prefix}[{','.join(parts)}]"


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            prefixes, st.lists(st.integers(0, 300), min_size=1, max_size=20, unique=True), st.sampled_from([1, 3, 5])
        ),
        min_size=1,
        max_size=5,
    )
)
def test_round_trip(groups: list[tuple[str, list[int], int]]) -> None:
    text = ",".join(folded(prefix, sorted(numbers), width) for prefix, numbers, width in groups)
    names = [f"{prefix}{n:0{width}d}" for prefix, numbers, width in groups for n in sorted(numbers)]
    assert expand_hostlist(text) == names


@settings(deadline=None)
@given(st.lists(prefixes, min_size=1, max_size=8))
def test_plain_names(names: list[str]) -> None:
    assert expand_hostlist(",".join(names)) == names


@settings(deadline=None)
@given(prefixes, prefixes, st.integers(0, 20), st.integers(0, 20), st.integers(0, 9), st.integers(0, 9))
def test_two_dimensions(a: str, b: str, low: int, more: int, low2: int, more2: int) -> None:
    text = f"{a}[{low}-{low + more}]{b}[{low2}-{low2 + more2}]x"
    wanted = [f"{a}{i}{b}{j}x" for i, j in product(range(low, low + more + 1), range(low2, low2 + more2 + 1))]
    assert expand_hostlist(text) == wanted


def test_examples() -> None:
    assert expand_hostlist("c[001-003,7],d1") == ["c001", "c002", "c003", "c7", "d1"]
    assert expand_hostlist("a[1-2]b[3-4]") == ["a1b3", "a1b4", "a2b3", "a2b4"]
    assert expand_hostlist("n[8-11]") == ["n8", "n9", "n10", "n11"]
    assert expand_hostlist("n[098-101].site") == ["n098.site", "n099.site", "n100.site", "n101.site"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "a,",
        ",a",
        "a,,b",
        "n[",
        "n]",
        "n[]",
        "n[1",
        "n[1-]",
        "n[-1]",
        "n[1--2]",
        "n[2-1]",
        "n[a-b]",
        "n[1,]",
        "n[[1]]",
        "n[1]]",
        "a b",
        "n[1] ,m",
        "n[1-2-3]",
        "n[9999999999999999999999]",
    ],
)
def test_malformed(text: str) -> None:
    with pytest.raises(NodeListError) as caught:
        expand_hostlist(text)
    assert not caught.value.too_large


@pytest.mark.parametrize(
    "text",
    [
        "n[0-999999999]",
        "n[0-99]m[0-99]k[0-99]",
        "n[1-999999999999999999]",
        ",".join(["n[1-70000]"] * 2),
        "a," * 200_000 + "a",
        "n[" + ",".join(["0-99999"] * 1000) + "]",
    ],
)
def test_too_large_is_known_before_a_name_is_made(text: str) -> None:
    with pytest.raises(NodeListError) as caught:
        expand_hostlist(text)
    assert caught.value.too_large


@settings(deadline=None)
@given(st.text(alphabet="ab01,-[]", max_size=30))
def test_any_text_gives_names_or_an_error(text: str) -> None:
    try:
        names = expand_hostlist(text, 1000)
    except NodeListError:
        return
    assert 0 < len(names) <= 1000
    assert not any(re.search(r"[\[\],]", name) or not name for name in names)
