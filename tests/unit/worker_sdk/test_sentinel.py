"""K16: the source check that an event loop says that it is complete at its own exit and nowhere else."""

import pytest

from resurge.testing import assert_sentinel


class Good:
    def loop(self, guard, queue):
        for item in queue:
            if item is None:
                break
        while True:
            for item in queue:
                if item:
                    break
            while queue:
                break
            if not queue:
                guard.completed()
                break

    def field(self, queue):
        while queue:
            queue.pop()
        while True:
            with queue:
                if not queue:
                    self.done = True
                    break

    async def behind_an_inner_loop(self, guard, queue):
        while True:
            async for _ in queue:
                continue
            else:
                guard.completed()
                break

    def inside_other_blocks(self, guard, queue):
        self.left = len(queue)

        def drain():
            while True:
                break

        with queue:
            try:
                while True:
                    self.left -= 1
                    if not queue:
                        guard.completed()
                        break
            finally:
                drain()

    def in_a_match(self, guard, queue):
        while True:
            try:
                match queue.get():
                    case None:
                        guard.completed()
                        break
            except KeyError:
                continue

            def inner():
                return 1

            inner()


class Bad:
    def no_loop(self, guard, queue):
        while queue:
            guard.completed()
            break

    def two_breaks(self, guard, queue):
        while True:
            if queue:
                break
            guard.completed()
            break

    def no_break(self, guard, queue):
        while True:
            guard.completed()

    def unset(self, guard, queue):
        while True:
            if not queue:
                break

    def not_directly_before(self, guard, queue):
        while True:
            guard.completed()
            if not queue:
                break

    def something_between(self, guard, queue):
        while True:
            guard.completed()
            queue.clear()
            break

    def by_return(self, guard, queue):
        while True:
            if queue:
                return
            guard.completed()
            break

    def return_in_an_inner_loop(self, guard, queue):
        while True:
            for _ in queue:
                return
            guard.completed()
            break

    def inner_break_sets_it(self, guard, queue):
        while True:
            for _ in queue:
                guard.completed()
                break
            guard.completed()
            break

    def set_after_the_loop(self, guard, queue):
        while True:
            guard.completed()
            break
        guard.completed()

    def set_in_a_handler(self, guard, queue):
        while True:
            try:
                queue.get()
            except KeyError:
                guard.completed()
            guard.completed()
            break


class BadField:
    def false(self, queue):
        while True:
            self.done = False
            break

    def computed(self, queue):
        while True:
            self.done = not queue
            break

    def of_another(self, other):
        while True:
            other.done = True
            break

    def reset_inside(self, queue):
        self.done = False
        while True:
            self.done = True
            break


@pytest.mark.parametrize("name", ["loop", "behind_an_inner_loop", "inside_other_blocks", "in_a_match"])
def test_K16_a_loop_that_ends_at_one_place_passes(name):
    assert_sentinel(getattr(Good, name))


def test_K16_the_sentinel_may_be_a_field_of_self():
    assert_sentinel(Good.field, "done")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_loop", "no 'while True'"),
        ("two_breaks", "2 breaks"),
        ("no_break", "0 breaks"),
        ("unset", "not directly preceded"),
        ("not_directly_before", "not directly preceded"),
        ("something_between", "not directly preceded"),
        ("by_return", "left by a return"),
        ("return_in_an_inner_loop", "left by a return"),
        ("inner_break_sets_it", "elsewhere"),
        ("set_after_the_loop", "elsewhere"),
        ("set_in_a_handler", "elsewhere"),
    ],
)
def test_K16_what_is_wrong_is_named(name, says):
    with pytest.raises(AssertionError, match=says):
        assert_sentinel(getattr(Bad, name))


@pytest.mark.parametrize("name", ["false", "computed", "of_another", "reset_inside"])
def test_K16_a_field_must_be_set_to_true_on_self_and_only_there(name):
    with pytest.raises(AssertionError):
        assert_sentinel(getattr(BadField, name), "done")
