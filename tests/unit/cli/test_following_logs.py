"""A reader that follows lines comes back to the log server, or reads the file, and says which; never twice the same."""

from __future__ import annotations

import pytest

from resurge_api.logs.v1 import logs_pb2
from resurge_launcher.commands import following_logs
from resurge_launcher.commands.following_logs import Follower, NoLogServer
from resurge_launcher.usage import CommandFailed, UsageProblem
from resurge_libs.rpc.endpoint import parse_endpoint

AT = parse_endpoint("127.0.0.1:7472")
GONE = UsageProblem("--log-endpoint", "is missing", "Name it.")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(following_logs, "AGAIN_S", 0.0)


class Server:
    """Answers each stream with the next of its stories: responses, and what it breaks with."""

    def __init__(self, *stories) -> None:
        self.stories, self.asked, self.said = list(stories), [], []
        self.is_announced = True

    def find(self):
        if not self.is_announced:
            raise GONE
        return AT

    def stream(self, endpoint, request):
        asked = logs_pb2.TailRequest()
        asked.CopyFrom(request)
        self.asked.append(asked)
        for told in self.stories.pop(0) if self.stories else [NoLogServer("it did not answer")]:
            if isinstance(told, Exception):
                raise told
            yield told

    def follower(self, away_limit_s: float = 10.0, **wanted) -> Follower:
        request = logs_pb2.TailRequest(kind=logs_pb2.LOG_KIND_APPLICATION, follow=True, **wanted)
        return Follower(request, self.find, self.stream, self.said.append, away_limit_s)


def shown_by(follower: Follower) -> tuple[bytes, str]:
    """All that it shows, and the failure that it ends with."""
    text = []
    try:
        for _, lines in follower.parts():
            text.append(lines)
    except CommandFailed as failure:
        return b"".join(text), str(failure)
    raise AssertionError("it ended without a failure")


def told(
    text: bytes, blocks: int, position: int, path="", sealed: bool = False, rank: int = 0
) -> logs_pb2.TailResponse:
    place = logs_pb2.LogPlace(attempt=1, cycle=0, blocks=blocks, position=position, path=str(path), sealed=sealed)
    source = logs_pb2.Source(rank=rank, node_id=f"n{rank}") if text else None
    return logs_pb2.TailResponse(source=source, text=text, place=place)


LISTENED = logs_pb2.TailResponse()
BROKEN = NoLogServer("the log server at 127.0.0.1:7472 did not answer: socket closed")


def test_it_goes_on_behind_the_last_line_that_it_has_shown_and_says_what_happened():
    server = Server(
        [LISTENED, told(b"", 3, 30), told(b"0: a\n", 4, 35), BROKEN],
        [BROKEN],
        [LISTENED, told(b"0: b\n", 5, 40)],
    )
    assert list(server.follower(last=2).parts()) == [(0, b"0: a\n"), (0, b"0: b\n")]
    assert [asked.after.blocks for asked in server.asked] == [0, 4, 4]
    assert [sentence.partition(":")[0] for sentence in server.said] == [
        "the log server at 127.0.0.1", "the log server answers again, at 127.0.0.1",
    ]  # fmt: skip
    assert "socket closed; it is waited for" in server.said[0]


def test_a_server_that_never_answered_or_refuses_is_an_error_at_once():
    for story, kind in (([BROKEN], NoLogServer), ([LISTENED, CommandFailed("refused: no such job")], CommandFailed)):
        server = Server(story)
        with pytest.raises(kind):
            list(server.follower().parts())
        assert len(server.asked) == 1 and not server.said


def test_one_that_stays_away_leaves_the_rest_to_the_file_and_a_failure_to_the_exit_code(tmp_path):
    path, later = tmp_path / "app_cycle0.log", tmp_path / "app_cycle1.log"
    path.write_bytes(b"0: a\n1: b\n0: c\nof 0\n1: d\n0: torn")
    later.write_bytes(b"0: next\n")
    server = Server([LISTENED, told(b"0: a\n", 1, 5, path), told(b"1: b\n", 2, 10, path, rank=1), BROKEN])
    text, why = shown_by(server.follower(away_limit_s=0.0))
    assert text == b"0: a\n1: b\n0: c\nof 0\n1: d\n0: next\n"
    assert "has not come back within 0 s; what came last was read from the file" in why
    server = Server([LISTENED, told(b"0: a\n", 1, 5, path), BROKEN])
    text, _ = shown_by(server.follower(away_limit_s=0.0, ranks=[0], cycle=0))
    assert text == b"0: a\n0: c\nof 0\n"


def test_one_that_answers_and_cannot_read_the_file_is_away_for_no_longer_than_one_that_is_silent(tmp_path):
    path = tmp_path / "app_cycle0.log"
    path.write_bytes(b"0: a\n0: b\n")
    unread = [[LISTENED, NoLogServer(f"{path} cannot be read")]] * 100_000
    server = Server([LISTENED, told(b"0: a\n", 1, 5, path), BROKEN], *unread)
    text, why = shown_by(server.follower(away_limit_s=0.2, cycle=0))
    assert text == b"0: a\n0: b\n" and "has not come back within 0.2 s" in why
    assert len(server.said) == 1, "it is not said to answer again"


def test_text_of_a_server_that_tells_no_places_is_not_shown_twice():
    old = told(b"0: a\n", 1, 5)
    old.ClearField("place")
    server = Server([LISTENED, old, BROKEN], [LISTENED, old])
    text, why = shown_by(server.follower())
    assert text == b"0: a\n" and why == str(BROKEN)


def test_one_that_ended_in_good_order_is_no_failure(tmp_path):
    path = tmp_path / "app_cycle0.log"
    path.write_bytes(b"0: a\n0: b\n")
    server = Server()

    def story():
        yield told(b"0: a\n", 1, 5, path)
        server.is_announced = False
        raise BROKEN

    server.stories = [story()]
    assert list(server.follower(cycle=0).parts()) == [(0, b"0: a\n"), (0, b"0: b\n")]
    assert "has ended; what came last was read from the file" in server.said[-1]
    server = Server([told(b"", 9, 10, path, sealed=True), BROKEN])
    assert list(server.follower(away_limit_s=0.0).parts()) == []
    assert "all ranks had reached their end" in server.said[-1]


def test_a_file_that_is_not_here_is_named_with_what_was_shown(tmp_path):
    server = Server([told(b"0: a\n", 1, 5, tmp_path / "gone.log"), BROKEN])
    with pytest.raises(CommandFailed, match=r"gone\.log cannot be read here: .*; its first 5 bytes were shown"):
        list(server.follower(away_limit_s=0.0).parts())
