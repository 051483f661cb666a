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
        ("obs.log obs.sinks obs.recovery_spans obs.perfetto obs.traceparent", ()),
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
