"""Starting is quick: the pure parts bring in no gRPC, no protobuf, no OpenTelemetry; sinks bring none until used."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("grpc", "google.protobuf", "opentelemetry", "torch", "numpy")


@pytest.mark.parametrize(
    ("modules", "allowed"),
    [
        ("core.verdict core.codec core.time_limits core.refusals core.machine", ()),
        ("config.settings config.flags", ()),
        ("obs.log obs.sinks obs.recovery_spans obs.traceparent", ()),
        ("engine.runner engine.replay engine.memory_journal engine.real", ()),
        ("engine.sqlite_journal", ("google.protobuf",)),
        ("rpc.server rpc.channel rpc.retry rpc.context", ("grpc", "google.protobuf")),
    ],
)
def test_a_module_brings_in_nothing_heavy_that_it_need_not(modules, allowed):
    names = ", ".join(f"resurge_libs.{name}" for name in modules.split())
    program = f"import sys, {names}; print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(eval(run.stdout)) <= set(allowed)


@pytest.mark.users_row(68)
@pytest.mark.users_row(72)
@pytest.mark.parametrize(
    ("modules", "never"),
    [
        ("resurge_launcher.warm.program resurge_launcher.warm.server", HEAVY),
        ("resurge resurge.torch resurge.worker_session", HEAVY),
        ("resurge_launcher.agent resurge_launcher.commands.run", ("opentelemetry", "torch", "numpy")),
    ],
)
def test_what_forks_or_is_forked_has_no_grpc_and_no_launcher_has_an_exporter(modules, never):
    names = ", ".join(modules.split())
    program = f"import sys, {names}; print([name for name in {never!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
