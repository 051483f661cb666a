"""The launcher's lease as its workers see it: in their pages, behind `resurge.fence`."""

from __future__ import annotations

from resurge_libs.testing import wait_until_async
from tests.integration.launcher.launching import SAY_PID, Launched

FENCING = (
    SAY_PID
    + """
import resurge
with resurge.session() as session:
    count = 0
    while True:
        try:
            answer = session.fence(wait=0.2)
            said("fence", "holds")
        except Exception as error:
            said("fence", type(error).__name__)
        time.sleep(0.02)
"""
)


async def test_the_fence_holds_while_beats_are_answered_and_fails_without(launched: Launched):
    launched.start(FENCING)
    await launched.running()
    fence = launched.folder / "fence"
    await wait_until_async(lambda: fence.exists() and fence.read_text() == "holds\n", 20, "a fence that holds")
    launched.rendezvous.answers_beats = False
    await wait_until_async(lambda: fence.read_text() != "holds\n", 20, "a fence that fails")
    launched.rendezvous.answers_beats = True
    await wait_until_async(lambda: fence.read_text() == "holds\n", 20, "a fence that holds again")


async def test_the_greeting_says_who_speaks_and_the_first_message_is_a_beat(launched: Launched):
    launched.start(FENCING)
    await launched.running()
    hello = launched.rendezvous.hellos[0]
    assert (hello.node_id, hello.local_world_size, hello.job.job_id) == ("n0", 1, "job")
    assert hello.incarnation and hello.boot_id and hello.pid == launched.pid
    beats = [o.beat for _, o in launched.rendezvous.history if o.HasField("beat")]
    assert beats and beats[0].sequence == 1


async def test_milestones_reach_rendezvous_at_once(launched: Launched):
    program = (
        SAY_PID
        + """
import resurge
with resurge.session() as session:
    session.process_group_ready()
    session.checkpoint_restored(40)
    session.step_committed(41)
    threading.Event().wait()
"""
    )
    launched.start(program)
    await launched.running()
    await wait_until_async(lambda: len(launched.rendezvous.told.milestones) == 4, 10, "four milestones")
    assert [(m.kind, m.step) for m in launched.rendezvous.told.milestones] == [(4, 0), (1, 0), (2, 40), (3, 41)]
