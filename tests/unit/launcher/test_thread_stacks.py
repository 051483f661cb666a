"""What a written stack says: the main thread, and whether it waits for other ranks."""

import pytest

from resurge_launcher.processes.thread_stacks import is_whole, main_stack, place

WRITTEN = """Thread 0x00007f68aec9e6c0 (most recent call first):
  File "/x/resurge/evidence.py", line 81 in _run

Current thread 0x00007f68afbe2b80 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/srv/job/train.py", line 57 in fetch
  File "/srv/job/train.py", line 90 in <module>
"""
SPIED = """Process 4242: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 4242 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2500)
    <module> (train.py:90)
Thread 4250 (idle): "resurge-answering"
    wait (resurge/death_lock.py:56)
"""


def test_stacks_are_whole_with_the_outermost_frame_of_the_signalled_thread():
    assert is_whole(WRITTEN)
    assert not any(is_whole(WRITTEN[:length]) for length in range(len(WRITTEN)))
    other = WRITTEN.replace("Current thread", "Thread")
    assert not is_whole(other), "the main thread may follow"


def test_the_main_thread_is_the_one_that_was_signalled():
    frames = main_stack(WRITTEN)
    assert [str(frame) for frame in frames][1:] == ["train.py:57 in fetch", "train.py:90 in <module>"]
    found = place(frames)
    assert str(found) == "train.py:57 in fetch", "the standard library only waits for somebody"
    assert found is not None and not found.is_collective and not found.is_framework


def test_without_a_mark_the_last_thread_is_the_main_one():
    frames = main_stack(WRITTEN.replace("Current thread", "Thread"))
    assert str(frames[-1]) == "train.py:90 in <module>"


def test_what_py_spy_writes_is_read_too():
    found = place(main_stack(SPIED))
    assert str(found) == "distributed_c10d.py:2500 in all_reduce"
    assert found is not None and found.is_collective, "it writes no whole paths"


def test_collectives_are_those_of_torch_but_not_its_launcher():
    path = "/x/site-packages/torch/distributed/{}"
    text = 'Current thread 0x1 (most recent call first):\n  File "{}", line 1 in f\n'
    collective = place(main_stack(text.format(path.format("distributed_c10d.py"))))
    record = place(main_stack(text.format(path.format("elastic/multiprocessing/errors/__init__.py"))))
    backward = place(main_stack(text.format("/x/site-packages/torch/autograd/graph.py")))
    assert collective is not None and collective.is_collective
    assert record is not None and not record.is_collective and record.is_framework
    assert backward is not None and not backward.is_collective and backward.is_framework


@pytest.mark.parametrize(
    "ours",
    ["guards/torch_groups.py", "guards/deadlines.py", "inprocess/line.py"],
)
def test_a_wait_for_peers_through_our_own_code_is_one_for_others_and_stands_in_the_script(ours: str):
    text = f"""Current thread 0x1 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/x/site-packages/resurge/{ours}", line 137 in wait
  File "/usr/lib/python3.11/contextlib.py", line 81 in inner
  File "/x/site-packages/resurge/guards/deadlines.py", line 299 in run
  File "/srv/job/train.py", line 57 in step
"""
    found = place(main_stack(text))
    assert found is not None and found.is_collective
    assert str(found) == "train.py:57 in step"


def test_the_script_s_own_wait_within_our_code_is_its_own():
    text = """Current thread 0x1 (most recent call first):
  File "/srv/job/train.py", line 57 in step
  File "/x/site-packages/resurge/guards/deadlines.py", line 299 in run
  File "/x/site-packages/resurge/inprocess/wrapper.py", line 150 in call
"""
    found = place(main_stack(text))
    assert str(found) == "train.py:57 in step"
    assert found is not None and not found.is_collective and not found.is_framework


def test_our_own_code_alone_is_a_wait_too():
    found = place(main_stack('Current thread 0x1:\n  File "/x/resurge/inprocess/line.py", line 9 in answer\n'))
    assert found is not None and found.is_collective and str(found) == "line.py:9 in answer"


def test_no_stack_says_nothing():
    assert main_stack("") == () and place(()) is None
    assert main_stack("Current thread 0x1 (most recent call first):\n  <no Python frame>\n") == ()
