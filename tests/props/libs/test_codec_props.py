"""Any value survives its encoding; its digest depends on nothing but the value."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from resurge_libs.core import codec


@dataclass(frozen=True)
class Small:
    text: str
    number: int
    share: float
    raw: bytes


@dataclass(frozen=True)
class Tree:
    members: tuple[Small, ...]
    table: Mapping[str, Small]
    numbers: frozenset[int]
    names: frozenset[str]
    maybe: Small | int | None


small = st.builds(
    Small, st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.binary(max_size=20)
)
tree = st.builds(
    Tree,
    st.lists(small, max_size=4).map(tuple),
    st.dictionaries(st.text(max_size=5), small, max_size=4),
    st.frozensets(st.integers(), max_size=5),
    st.frozensets(st.text(max_size=4), max_size=5),
    st.one_of(st.none(), st.integers(), small),
)


@given(tree)
def test_encoding_is_undone_by_decoding(value):
    data = codec.encode(value)
    back = codec.decode(Tree, data)
    assert back == value
    assert codec.encode(back) == data
    assert codec.digest(back) == codec.digest(value)


@given(tree, tree)
def test_equal_digests_mean_equal_values(one, other):
    assert (codec.digest(one) == codec.digest(other)) == (codec.encode(one) == codec.encode(other))


@given(st.lists(tree, max_size=6))
def test_a_digester_that_remembers_agrees_with_one_that_does_not(values):
    digester = codec.Digester()
    for value in values * 2:
        assert digester.digest(value) == codec.digest(value)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoder(data):
    with contextlib.suppress(codec.CodecError):
        codec.decode(Tree, data)


PROGRAM = """
from tests.props.libs.test_codec_props import Tree, Small
from resurge_libs.core import codec
one = Small("x", 1, 0.5, b"y")
names = frozenset("abcdefghij")
print(codec.digest(Tree((one,), {n: one for n in names}, frozenset(range(9)), names, one)).hex())
"""


def test_the_digest_is_the_same_under_every_hash_seed():
    found = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, env=environment, text=True, check=True
        )
        found.add(run.stdout)
    assert len(found) == 1
