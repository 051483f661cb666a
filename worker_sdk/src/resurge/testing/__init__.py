"""What a project's own tests need: faults to inject, groups and streams without a transport, the sentinel's check.

Never imported by `import resurge`.
"""

from resurge.testing.fakes import FakeGroup, FakeStream, SlowGroup, StuckGroup
from resurge.testing.faults import HoldFiles, frozen, hold_gil, kill
from resurge.testing.sentinel import assert_sentinel

__all__ = [
    "FakeGroup",
    "FakeStream",
    "HoldFiles",
    "SlowGroup",
    "StuckGroup",
    "assert_sentinel",
    "frozen",
    "hold_gil",
    "kill",
]
