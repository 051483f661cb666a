"""Whole lines with their rank, whatever a worker writes."""

from __future__ import annotations

import random

import pytest

from resurge_launcher.logs import shaping
from resurge_launcher.logs.shaping import prefix_of, shape


def told(raw: bytes, **more) -> bytes:
    return shape(raw, b"3: ", **more).text


@pytest.mark.parametrize(
    ("rank", "world_size", "prefix"), [(0, 1, b"0: "), (3, 10, b"3: "), (3, 11, b" 3: "), (42, 16_000, b"   42: ")]
)
def test_the_rank_is_right_aligned_to_the_highest_one(rank, world_size, prefix):
    assert prefix_of(rank, world_size) == prefix


def test_whole_lines_go_and_the_unfinished_one_stays():
    shaped = shape(b"one\ntwo\nthr", b"3: ")
    assert (shaped.text, shaped.lines, shaped.taken) == (b"3: one\n3: two\n", 2, 8)
    assert shape(b"thr", b"3: ").taken == 0


def test_at_the_end_the_unfinished_line_goes_too():
    shaped = shape(b"one\nlast words", b"3: ", at_end=True)
    assert (shaped.text, shaped.lines, shaped.taken) == (b"3: one\n3: last words\n", 2, 14)
    assert shape(b"", b"3: ", at_end=True).taken == 0


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\n\n", b"3: \n3: \n"),
        (b"a\0b\n", b"3: a<NUL>b\n"),
        (b"caf\xc3\xa9 \xff\xfe!\n", "3: caf\u00e9 \ufffd\ufffd!\n".encode()),
        (b"\x1b[31mred\x1b[0m\n", b"3: \x1b[31mred\x1b[0m\n"),
        (b"dos\r\nunix\n", b"3: dos\n3: unix\n"),
        (b" 10%\r 20%\r100%\n", b"3: 100%\n"),
        (b" 10%\r 20%\r\n", b"3:  20%\n"),
        (b"\r\r\n", b"3: \n"),
    ],
)
def test_what_a_file_of_text_cannot_hold_is_made_so(raw, text):
    assert told(raw) == text


def test_a_line_without_end_is_broken_between_characters_and_says_so(monkeypatch):
    monkeypatch.setattr(shaping, "LINE_MAX", 10)
    first = shape("\u00e9".encode() * 6, b"3: ")
    assert (first.taken, first.is_broken) == (10, True)
    assert first.text == b"3: " + "\u00e9".encode() * 5 + b"\n"
    rest = shape("\u00e9 done\n".encode(), b"3: ", goes_on=first.is_broken)
    assert rest.text == b"3: [resurge: the line goes on] " + "\u00e9 done\n".encode()
    assert not rest.is_broken


@pytest.mark.parametrize("seed", range(30))
def test_however_the_bytes_are_cut_the_lines_are_the_same(seed):
    chance = random.Random(seed)
    raw = bytes(chance.choice(b"ab \n\xc3\xa9\xff\x00") for _ in range(300)) + b"\n"
    whole = shape(raw, b"3: ").text
    parts, at = b"", 0
    while at < len(raw):
        end = min(len(raw), at + chance.randrange(1, 60))
        shaped = shape(raw[at:end], b"3: ", at_end=False)
        while not shaped.taken:
            end = min(len(raw), end + 20)
            shaped = shape(raw[at:end], b"3: ")
        parts += shaped.text
        at += shaped.taken
    assert parts == whole
