"""The canonical encoding: strict, sorted, tagged; errors name the place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pytest

from resurge_libs.core import codec
from resurge_libs.core.codec_plan import plan_of
from resurge_libs.core.ids import NodeId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Leaf:
    name: NodeId
    rank: Rank | None = None


@dataclass(frozen=True)
class Branch:
    leaves: tuple[Leaf, ...]
    by_name: Mapping[NodeId, Leaf]
    ranks: frozenset[Rank]
    pair: tuple[int, str]
    colour: Colour
    raw: bytes
    at: Wall
    because: Because
    either: Leaf | Because | None = None
    parent: Branch | None = None


@dataclass(frozen=True)
class Other:
    number: int


@dataclass(frozen=True)
class Counted:
    seen: int = field(default=0, init=False)
    number: int = 1


LEAF = Leaf(NodeId("n1"), Rank(3))
BRANCH = Branch(
    leaves=(LEAF, Leaf(NodeId("n0"))),
    by_name={NodeId("b"): LEAF, NodeId("a"): LEAF},
    ranks=frozenset({Rank(2), Rank(10), Rank(1)}),
    pair=(1, "ü"),
    colour=Colour.BLUE,
    raw=b"\x00\xff",
    at=Wall(1.25),
    because=Because(Reason.BEAT, "x"),
    either=LEAF,
)


def test_a_value_survives_the_way_to_bytes_and_back():
    nested = Branch(**{**BRANCH.__dict__, "parent": BRANCH, "either": Because(Reason.TICK)})
    assert codec.decode(Branch, codec.encode(nested)) == nested
    assert codec.decode(Other | Branch, codec.encode(nested)) == nested


def test_order_of_insertion_does_not_show():
    turned = Branch(**{**BRANCH.__dict__, "by_name": dict(reversed(BRANCH.by_name.items()))})
    assert codec.encode(turned) == codec.encode(BRANCH)
    assert codec.digest(turned) == codec.digest(BRANCH)


def test_the_digest_is_the_same_with_and_without_memory_and_changes_with_every_field():
    digester = codec.Digester()
    assert digester.digest(BRANCH) == digester.digest(BRANCH) == codec.digest(BRANCH)
    for name, other in {"pair": (2, "ü"), "raw": b"", "colour": Colour.RED, "leaves": (), "either": None}.items():
        assert codec.digest(Branch(**{**BRANCH.__dict__, name: other})) != codec.digest(BRANCH), name


def test_a_digester_keeps_no_more_past_states_alive_than_the_present_one_has_values():
    digester, size = codec.Digester(), 100
    leaves = tuple(Leaf(NodeId(f"n{index}")) for index in range(size))
    most = 0
    for number in range(50 * size):  # each time one of many leaves is another one
        at = number % size
        leaves = (*leaves[:at], Leaf(NodeId(f"{number}")), *leaves[at + 1 :])
        digester.digest(Branch(**{**BRANCH.__dict__, "leaves": leaves}))
        most = max(most, digester.remembered)
    assert size < most <= codec.MEMO_LEAST + 3 * size
    digester.digest(LEAF)
    for number in range(2 * codec.MEMO_LEAST):
        digester.digest(Leaf(NodeId(f"{number}")))
    assert digester.remembered <= 1 + codec.MEMO_LEAST, "of a small state it holds little"


def test_what_lies_within_an_unchanged_value_is_not_hashed_again_when_that_changes_at_last(monkeypatch):
    digester, size, hashed = codec.Digester(), 50 * codec.MEMO_LEAST, list[bytes]()
    monkeypatch.setattr(codec, "_dumps", lambda value, dumps=codec._dumps: hashed.append(dumps(value)) or hashed[-1])
    table = Branch(**{**BRANCH.__dict__, "leaves": tuple(Leaf(NodeId(f"n{index}")) for index in range(size))})
    for number in range(5 * codec.MEMO_LEAST):  # long enough for a memo that only knew what it was asked
        digester.digest(Branch(**{**BRANCH.__dict__, "pair": (number, ""), "parent": table}))
    hashed.clear()
    changed = Branch(**{**table.__dict__, "leaves": (*table.leaves[:-1], Leaf(NodeId("another")))})
    digester.digest(Branch(**{**BRANCH.__dict__, "parent": changed}))
    assert len(hashed) == 3, "the leaf, the table and the whole"


def test_a_missing_field_takes_its_default_so_that_records_may_grow():
    assert codec.decode(Leaf, b'["Leaf",{"name":"n"}]') == Leaf(NodeId("n"))


def test_fields_outside_the_constructor_are_left_out():
    assert codec.encode(Counted(number=2)) == b'["Counted",{"number":2}]'


@pytest.mark.parametrize(
    ("data", "error", "place"),
    [
        (b"\xff", codec.NotCanonical, "not an encoded value"),
        (b"{}", codec.NotCanonical, "class name"),
        (b'["Nobody",{}]', codec.UnknownClass, "'Nobody' is not allowed here; known are Leaf"),
        (b'["Leaf",{"name":"n","size":1}]', codec.UnknownField, "Leaf has no field 'size'"),
        (b'["Leaf",{}]', codec.MissingField, "Leaf: field 'name' is missing"),
        (b'["Leaf",{"name":7}]', codec.WrongType, "Leaf.name: expected str, got int 7"),
        (b'["Leaf",{"name":"n","rank":true}]', codec.WrongType, "Leaf.rank: expected int, got bool"),
        (b'["Leaf",[]]', codec.WrongType, "Leaf: expected the fields of Leaf"),
    ],
)
def test_bytes_that_do_not_fit_are_refused_with_the_place(data, error, place):
    with pytest.raises(error) as refused:
        codec.decode(Leaf, data)
    assert place in str(refused.value)
    assert isinstance(refused.value, codec.CodecError)


def test_a_deep_error_names_the_whole_way():
    data = codec.encode(BRANCH).replace(b'"name":"n0"', b'"name":0')
    with pytest.raises(codec.WrongType, match=r"Branch\.leaves\[1\]\.name"):
        codec.decode(Branch, data)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Leaf(7), r"Leaf\.name: expected str"),  # type: ignore[arg-type]
        (Leaf(NodeId("n"), 1.5), r"Leaf\.rank: expected int"),  # type: ignore[arg-type]
        (Branch(**{**BRANCH.__dict__, "at": float("nan")}), "finite"),
        (Branch(**{**BRANCH.__dict__, "pair": (1, "a", 2)}), r"Branch\.pair: expected 2 members"),
        (Branch(**{**BRANCH.__dict__, "either": Other(1)}), "expected one of Leaf, Because"),
    ],
)
def test_values_that_do_not_fit_their_fields_are_refused(value, message):
    with pytest.raises(codec.WrongType, match=message):
        codec.encode(value)


def test_a_class_without_encoding_is_named_at_its_first_use():
    @dataclass(frozen=True)
    class Loose:
        anything: object

    with pytest.raises(codec.UnsupportedType, match=r"Loose\.anything"):
        plan_of(Loose)
    with pytest.raises(codec.UnsupportedType):
        codec.encode("just text")
