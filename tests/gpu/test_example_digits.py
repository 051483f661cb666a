"""The example on a GPU with NCCL: one rank, killed in the middle, ends with the same parameters."""

import pytest

from tests.e2e.test_example_digits import Run, fingerprint

torch = pytest.importorskip("torch", reason="the example trains with torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.timeout(240)
def test_a_rank_on_a_gpu_resumes_bit_for_bit(tmp_path):
    with Run(tmp_path / "a", 1, output=tmp_path / "a.txt") as run:
        codes, undisturbed = run.finish()
    assert codes == [0], undisturbed
    with Run(tmp_path / "b", 1, "--steps", "35", output=tmp_path / "b.txt") as run:
        codes, text = run.finish()
    assert codes == [0], text
    with Run(tmp_path / "b", 1, output=tmp_path / "c.txt") as run:
        codes, resumed = run.finish()
    assert codes == [0], resumed
    assert "start at step 35" in resumed
    assert fingerprint(resumed) == fingerprint(undisturbed)
