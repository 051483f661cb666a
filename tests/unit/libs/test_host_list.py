"""Host lists in Slurm's notation: what operators know them to look like, and nothing lost on the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resurge_libs.core.host_list import BadHostList, compressed, expanded


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([], ""),
        (["login"], "login"),
        (["node7"], "node7"),
        ([f"node{n:03d}" for n in (1, 2, 3, 4, 7)], "node[001-004,007]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n09", "n10", "n8"], "n[8,09-10]"),
        (["gpu1-ib", "gpu2-ib", "cpu1"], "cpu1,gpu[1-2]-ib"),
        (["rack1node1", "rack1node2", "rack2node1"], "rack1node[1-2],rack2node1"),
        (["n1", "n1"], "n1"),
        (["n098", "n099", "n100"], "n[098-100]"),
        (["n99", "n100", "n101"], "n[99-101]"),
    ],
)
def test_hosts_are_written_as_slurm_writes_them(hosts: list[str], text: str):
    assert compressed(hosts) == text
    assert sorted(expanded(text)) == sorted(set(hosts))


@given(st.sets(st.from_regex(r"[a-z]{1,3}[0-9]{0,3}(-[a-z]{1,2})?", fullmatch=True), max_size=40))
def test_no_host_is_lost_and_none_is_made_up(hosts: set[str]):
    text = compressed(hosts)
    assert set(expanded(text)) == hosts and len(expanded(text)) == len(hosts)


@pytest.mark.parametrize("text", ["n[1-2", "n[a-b]", "n[5-1]", "n[1-99999999]", "n[1][2]"])
def test_what_is_no_list_is_refused(text: str):
    with pytest.raises(BadHostList):
        expanded(text)
