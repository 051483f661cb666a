"""Quick values are what people see of any frozen dataclass; and what cannot be made so is left as it is."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields
from dataclasses import replace as slowly
from typing import Generic, TypeVar

import pytest

from resurge_libs.core.values import quick, replace

T = TypeVar("T")


@quick
@dataclass(frozen=True, slots=True)
class Quick(Generic[T]):
    """One of each kind of field."""

    thing: T
    count: int = 3
    known: frozenset[int] = frozenset({1})

    @property
    def twice(self) -> int:
        return 2 * self.count


@dataclass(frozen=True, slots=True)
class Plain:
    """With a default that is made."""

    name: str
    items: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Careful:
    """It looks at what it is given."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("count is negative")


@dataclass(frozen=True)
class Roomy:
    """Without slots."""

    count: int


def test_a_quick_value_is_as_any_other():
    value = Quick("a", known=frozenset())
    assert (value.thing, value.count, value.known, value.twice) == ("a", 3, frozenset(), 6)
    assert (
        type(value) is Quick and value == Quick("a", 3, frozenset()) and hash(value) == hash(Quick("a", 3, frozenset()))
    )
    assert value != Quick("b", 3, frozenset()) and repr(value) == "Quick(thing='a', count=3, known=frozenset())"
    assert asdict(value) == {"thing": "a", "count": 3, "known": frozenset()}
    match value:
        case Quick(thing, count):
            assert (thing, count) == ("a", 3)


def test_nothing_of_it_can_be_set():
    with pytest.raises(FrozenInstanceError):
        Quick("a").count = 4
    with pytest.raises(FrozenInstanceError):
        replace(Plain("a"), name="b").name = "c"


@pytest.mark.parametrize("wrong", [lambda: Quick(), lambda: Quick("a", other=1), lambda: Quick("a", 1, frozenset(), 2)])
def test_it_takes_its_fields_and_no_others(wrong: Callable[[], object]):
    with pytest.raises(TypeError):
        wrong()


@pytest.mark.parametrize("value", [Quick("a", 7), replace(Quick("a"), count=7)])
def test_it_can_be_copied_and_pickled(value: Quick):
    assert pickle.loads(pickle.dumps(value)) == copy.copy(value) == copy.deepcopy(value) == Quick("a", 7)


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        (Quick("a"), {"count": 9}),
        (Quick("a"), {}),
        (Plain("a", [1]), {"name": "b"}),
        (Plain("a", [1]), {"items": [2], "name": "c"}),
        (Careful(1), {"count": 2}),
        (Roomy(1), {"count": 2}),
    ],
)
def test_a_copy_is_what_the_standard_library_makes(value: object, changes: dict[str, object]):
    assert replace(value, **changes) == slowly(value, **changes)
    assert type(replace(value, **changes)) is type(value)
    assert {item.name for item in fields(value)} >= set(changes)


def test_a_copy_is_looked_at_as_its_first_was():
    with pytest.raises(ValueError, match="negative"):
        replace(Careful(1), count=-1)


def test_a_field_that_is_not_there_is_refused():
    with pytest.raises(TypeError):
        replace(Plain("a"), nam="b")


@pytest.mark.parametrize("cls", [Plain, Careful, Roomy])
def test_what_cannot_be_quick_says_so(cls: type):
    with pytest.raises(TypeError, match="no frozen dataclass"):
        quick(cls)


def test_a_quick_value_has_no_subclass():
    with pytest.raises(TypeError, match=r"Quick is made quickly.*Fast"):

        class Fast(Quick[str]):
            pass

        # of what is made nobody would notice that it is none of the subclass
        assert type(Fast("a")) is Fast
