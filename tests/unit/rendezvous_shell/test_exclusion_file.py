"""The excluded hosts for a scheduler: whole, in its own words, and never in anybody's way."""

from __future__ import annotations

import json
import os

from resurge_libs.core.ids import NodeId
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.testing import wait_until
from resurge_rendezvous.core.model import Exclusion, Identity, MachineExclusion
from resurge_rendezvous.exclusion_file import ExclusionFile, as_json, as_line


def out(host: str, node: str = "n", until: float | None = None, automatic: bool = False) -> MachineExclusion:
    because = Because(Reason.EXCLUDED, "fans are loud")
    exclusion = Exclusion(because, None if until is None else Wall(until), "ann@desk", Wall(1_700_000_000.0), automatic)
    return MachineExclusion(Identity(NodeId(node), host, "f" * 32), exclusion)


def test_hosts_stand_in_one_line_as_a_scheduler_takes_them():
    assert as_line([out("n10.cluster"), out("n2"), out("n10.cluster", "m"), out("")]) == "n2,n10\n"
    assert as_line([]) == "", "nothing at all, so that a script can tell"


def test_the_json_tells_the_whole_story():
    assert json.loads(as_json("job", [out("n2.x", "n2", 1_700_000_600.0, True)])) == {
        "job": "job",
        "excluded": [
            {
                "host": "n2",
                "node": "n2",
                "machine_id": "f" * 32,
                "reason": "EXCLUDED",
                "sentence": "fans are loud",
                "by": "ann@desk",
                "automatic": True,
                "at": "2023-11-14T22:13:20Z",
                "until": "2023-11-14T22:23:20Z",
            }
        ],
    }


def test_both_files_are_replaced_whole_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "new" / "excluded"
    file = ExclusionFile(path)
    file.show("job", [])
    wait_until(path.exists, 5, "the first version")
    assert path.read_text() == ""
    file.show("job", [out("n1")])
    file.close()
    assert path.read_text() == "n1\n"
    assert json.loads(path.with_name("excluded.json").read_text())["excluded"][0]["host"] == "n1"
    assert sorted(os.listdir(path.parent)) == ["excluded", "excluded.json"]


def test_what_cannot_be_written_is_said_once_and_delays_nobody(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    file = ExclusionFile(tmp_path / "file" / "excluded")
    for _ in range(3):
        file.show("job", [out("n1")])
        wait_until(lambda: file._writer.is_idle, 5, "the writer")
    file.close()
    told = capsys.readouterr().err
    assert told.count("record_not_written") == 1
    assert "the list of excluded hosts cannot be written" in told and "--exclusion-file" in told


def test_without_a_path_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = ExclusionFile(None)
    file.show("job", [out("n1")])
    file.close()
    assert os.listdir(tmp_path) == []
