"""Each rule of the house must refuse a bad sample and let a good one pass: a check that cannot fail checks nothing."""

from __future__ import annotations

import pytest

from tests.arch import imports, rules

LONG_FUNCTION = "def f():\n" + "    x = 1\n" * rules.FUNCTION_LINES
LONG_CLASS = "class C:\n" + "    x = 1\n" * rules.CLASS_LINES
SLASH = "/"

BAD = [
    (rules.sizes, "x = 1\n" * (rules.MODULE_LINES + 1)),
    (rules.sizes, LONG_FUNCTION),
    (rules.sizes, "async " + LONG_FUNCTION),
    (rules.sizes, LONG_CLASS),
    (rules.sizes, "def f(a, b, c, d, *, e, f, g): ...\n"),
    (rules.vague_names, "class WorkerManager: ...\n"),
    (rules.vague_names, "def log_helper(): ...\n"),
    (rules.environment, "import os\nx = os.environ['A']\n"),
    (rules.environment, "import os\nx = os.getenv('A')\n"),
    (rules.environment, "from os import environ\n"),
    (rules.sleeps, "import time\ntime.sleep(n)\n"),
    (rules.sleeps, "from time import sleep\nsleep(1)\n"),
    (rules.sleeps, "import asyncio\nawait_ = asyncio.sleep(0.5)\n"),
    (rules.sleeps, "from asyncio import sleep\nasync def f():\n    await sleep(3)\n"),
    (rules.broad_excepts, "try:\n    f()\nexcept Exception:\n    pass\n"),
    (rules.broad_excepts, "try:\n    f()\nexcept:\n    pass\n"),
    (rules.broad_excepts, "try:\n    f()\nexcept (OSError, BaseException) as e:\n    log(e)\n"),
    (rules.broad_excepts, "try:\n    f()\nexcept Exception:  # task root:\n    pass\n"),
    (rules.broad_excepts, "with contextlib.suppress(Exception):\n    f()\n"),
    (rules.skips, "import pytest\n\n@pytest.mark.skip\ndef test_a(): ...\n"),
    (rules.skips, "import pytest\n\n@pytest.mark.skipif(True)\ndef test_a(): ...\n"),
    (rules.skips, "import pytest\n\ndef test_a():\n    pytest.skip('')\n"),
    (rules.skips, "import pytest\n\nt = pytest.importorskip('torch')\n"),
    (rules.make_targets, "a: b\n\tone\n\ttwo\n\tthree\n\tfour\n\nb:\n\tone\n"),
    (rules.proto_fields, "  string output_json = 5;\n"),
    (rules.proto_fields, "  repeated double waits_ms = 5;\n"),
    (rules.proto_fields, "  optional int64 sent_at = 5;\n"),
    (rules.machine_words, f"path = '{SLASH}home/somebody/x'\n"),
    (rules.machine_words, f"see {SLASH}work/notes\n"),
    (rules.machine_words, "pip install --index-url https" + "://example.org/simple\n"),
    (rules.machine_words, "pypi" + ".org\n"),
]

GOOD = [
    (rules.sizes, "x = 1\n" * rules.MODULE_LINES),
    (rules.sizes, "def test_a(a, b, c, d, e, f, g): ...\n"),
    (rules.sizes, "class C:\n    def f(self, a, b, c, d, e, f): ...\n"),
    (rules.vague_names, "class Utility: ...\ndef managers_of(x): ...\n"),
    (rules.environment, "import os\nx = os.path.join('a', 'b')\nenviron = {}\n"),
    (rules.sleeps, "import asyncio\nasync def f(s):\n    await asyncio.sleep(0)\n    await asyncio.sleep(s)\n"),
    (
        rules.broad_excepts,
        "try:\n    f()\nexcept Exception:  # task root: one bad request must not end the server\n    log()\n",
    ),
    (rules.broad_excepts, "try:\n    f()\nexcept Exception:  # the root of one call: answered INTERNAL\n    log()\n"),
    (rules.broad_excepts, "try:\n    f()\nexcept BaseException:\n    undo()\n    raise\n"),
    (rules.broad_excepts, "try:\n    f()\nexcept ValueError:\n    pass\n"),
    (
        rules.skips,
        "import pytest\n\n@pytest.mark.skipif(True, reason='no GPU')\ndef test_a():\n    pytest.skip('no torch')\n",
    ),
    (rules.proto_fields, "  google.protobuf.Duration limit_s = 5;\n  uint32 status = 6;\n  string reason = 7;\n"),
    (rules.make_targets, "a: b\n\tone\n\ttwo\n\n\tthree\n"),
    (
        rules.machine_words,
        "~|work|x and out|work|x and tests|root|x and https:||www.w3.org|home|x\n".replace("|", SLASH),
    ),
]


@pytest.mark.parametrize(("rule", "source"), BAD)
def test_a_bad_sample_is_refused(rule: rules.Rule, source: str):
    assert rule(source)


@pytest.mark.parametrize(("rule", "source"), GOOD)
def test_a_good_sample_passes(rule: rules.Rule, source: str):
    assert rule(source) == []


def test_a_ring_is_found_through_a_lazy_import():
    modules = {
        "a": "",
        "a.one": "from a import two\n",
        "a.two": "def f():\n    from a.three import g\n",
        "a.three": "from .one import x\n",
    }
    graph = imports.edges(modules, frozenset({"a"}))
    assert imports.cycles(graph) == [["a.one", "a.three", "a.two"]]


def test_a_package_that_reexports_is_no_ring_until_its_part_asks_the_package():
    modules = {"a": "from a.one import x\n", "a.one": "from a import two\n", "a.two": ""}
    assert imports.cycles(imports.edges(modules, frozenset({"a"}))) == []
    modules["a.two"] = "from a import x\n"
    assert imports.cycles(imports.edges(modules, frozenset({"a"}))) == [["a", "a.one", "a.two"]]


def test_a_foreign_room_of_the_api_is_found():
    wanted = {"resurge_api.policy.v1.policy_pb2", "resurge_api.journal.v1.journal_pb2"}
    assert imports.foreign_rooms("resurge_restart_policy.wire", wanted) == ["journal"]
    assert imports.foreign_rooms("resurge_rendezvous.wire", wanted) == []
    assert imports.foreign_rooms("resurge_libs.core.codec", wanted) == ["journal", "policy"]


def test_a_host_that_reaches_past_module_is_found():
    wanted = {"resurge_rendezvous.module.build", "resurge_rendezvous.core.step"}
    assert imports.host_reaches_past_module(wanted) == ["resurge_rendezvous.core.step"]


def test_a_target_that_runs_what_is_not_there_is_found():
    makefile = "a:\n\tscripts/a.sh\nb:\n\tpython -m tests.sim --seeds 3\nc:\n\tscripts/c.sh\n\tpython -m tests.demo\n"
    names = frozenset({"scripts/a.sh", "tests/sim/__main__.py"})
    assert rules.missing_programs(makefile, names) == ["scripts/c.sh", "tests/demo"]


def test_a_launcher_that_reaches_into_the_sdk_is_found():
    wanted = {"resurge.page.Page", "resurge.session", "resurge", "resurge_libs.core"}
    assert imports.sdk_beyond_formats(wanted) == ["resurge", "resurge.session"]


def test_an_sdk_module_that_needs_torch_to_be_imported_is_found():
    assert imports.eager_third_party("import os, torch.distributed\n") == ["torch.distributed"]
    assert imports.eager_third_party("try:\n    from grpc import aio\nexcept ImportError:\n    aio = None\n") == [
        "grpc"
    ]
    lazy = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\ndef f():\n    import torch\n"
    assert imports.eager_third_party(lazy) == []
