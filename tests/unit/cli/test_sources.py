"""Flag > RESURGE_<SECTION>__<FIELD> > PET_<NAME> > YAML > default, and nothing unknown passes."""

from __future__ import annotations

import pytest

from resurge_launcher.commands.sources import ConfigFile, resolve
from resurge_launcher.flags import OPTIONS
from resurge_launcher.usage import UsageProblem

FILE = ConfigFile("cfg.yaml", {"launcher": {"max_restarts": 4}, "limits": {"lease_ttl_s": 4}, "rendezvous": {"x": 1}})


def winner(flags=None, environ=None, config=None, name="max_restarts"):
    item = resolve(flags or {}, environ or {}, config)[name]
    return item.value, item.source


def test_each_place_wins_over_those_below_it():
    flags = {"max_restarts": ("--max_restarts", "1")}
    house = {"RESURGE_LAUNCHER__MAX_RESTARTS": "2"}
    pet = {"PET_MAX_RESTARTS": "3"}
    assert winner(flags, house | pet, FILE) == (1, "--max_restarts")
    assert winner({}, house | pet, FILE) == (2, "RESURGE_LAUNCHER__MAX_RESTARTS")
    assert winner({}, pet, FILE) == (3, "PET_MAX_RESTARTS")
    assert winner({}, {}, FILE) == (4, "launcher.max_restarts in cfg.yaml")
    assert winner() == (0, "default")


def test_time_limits_come_from_their_own_section():
    assert winner({}, {}, FILE, "lease_ttl_s") == (4.0, "limits.lease_ttl_s in cfg.yaml")
    assert winner({}, {"RESURGE_LIMITS__LEASE_TTL_S": "3"}, FILE, "lease_ttl_s")[0] == 3.0


@pytest.mark.parametrize(
    ("environ", "content", "field", "hint"),
    [
        ({"RESURGE_LAUNCHER__MAX_RESTART": "1"}, {}, "RESURGE_LAUNCHER__MAX_RESTART", "RESURGE_LAUNCHER__MAX_RESTARTS"),
        ({"RESURGE_LANCHER__NNODES": "1"}, {}, "RESURGE_LANCHER__NNODES", "RESURGE_LAUNCHER__NNODES"),
        ({}, {"launcher": {"max_restart": 1}}, "launcher.max_restart in cfg.yaml", "max_restarts"),
        ({}, {"limit": {"lease_ttl_s": 1}}, "limit in cfg.yaml", "limits"),
        ({}, {"fault_tolerance": {}}, "fault_tolerance in cfg.yaml", "launcher"),
        ({}, {"launcher": {"role": None}}, "launcher.role in cfg.yaml", "Give one"),
        ({}, {"launcher": {"role": [[1]]}}, "launcher.role in cfg.yaml", "one value"),
        ({}, {"launcher": 3}, "launcher in cfg.yaml", "keys"),
    ],
)
def test_what_nobody_reads_is_refused_with_a_suggestion(environ, content, field, hint):
    with pytest.raises(UsageProblem) as caught:
        resolve({}, environ, ConfigFile("cfg.yaml", content))
    assert caught.value.field == field
    assert hint in caught.value.right


def test_variables_of_the_services_are_left_to_them():
    resolve({}, {"RESURGE_RENDEZVOUS__ANYTHING": "1", "RESURGE_JOB_TOKEN": "x"}, None)


def test_a_bad_value_names_the_place_it_came_from():
    with pytest.raises(UsageProblem) as caught:
        resolve({}, {"PET_NNODES": "3:1"}, None)
    assert caught.value.field == "PET_NNODES"


def test_yaml_lists_and_mappings_read_as_the_options_write_them():
    body = {"signals_to_handle": ["SIGTERM", "usr1"], "rdzv_conf": {"is_host": True}, "nnodes": "1:2"}
    resolved = resolve({}, {}, ConfigFile("c", {"launcher": body}))
    assert [item.name for item in resolved["signals_to_handle"].value] == ["SIGTERM", "SIGUSR1"]
    assert resolved["rdzv_conf"].value == {"is_host": "True"}
    assert resolved["nnodes"].value == (1, 2)


def test_no_two_options_share_a_name_a_flag_or_a_variable():
    names = [item.name for item in OPTIONS]
    flags = [flag for item in OPTIONS for flag in item.flags]
    pets = [variable for item in OPTIONS for variable in item.pet_variables]
    for words in (names, flags, pets):
        assert len(words) == len(set(words))
