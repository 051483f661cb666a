from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.rendezvous import FakeRendezvous
from tests.integration.launcher.launching import Launched


@pytest.fixture
async def launched(tmp_path: Path) -> AsyncIterator[Launched]:
    """A launcher to be started, and its rendezvous."""
    rendezvous = FakeRendezvous()
    endpoint = await rendezvous.start()
    launched = Launched(tmp_path, rendezvous, endpoint)
    try:
        yield launched
    finally:
        launched.end()
        await rendezvous.stop()
        print(launched.output())
