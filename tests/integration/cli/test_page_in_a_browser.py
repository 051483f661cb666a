"""The timeline page in a real headless Chromium: what a person would see is there, the script runs."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from resurge_launcher.views.html import page
from resurge_launcher.views.model import view_of
from tests.recovery_sample import all_three

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# the page's own policy forbids foreign scripts, so the probe stands where the page's script stands
PROBE = """
<script>
addEventListener("error", (event) => { document.body.dataset.error = event.message; });
addEventListener("load", () => {
  const bars = [...document.querySelectorAll(".bar")];
  const boxes = bars.map((bar) => bar.getBoundingClientRect());
  const tracks = bars.map((bar) => bar.parentElement.getBoundingClientRect());
  document.body.dataset.bars = bars.length;
  document.body.dataset.inside = boxes.filter((box, at) =>
    box.left >= tracks[at].left - 1 && box.left <= tracks[at].right + 1 && box.width >= 1 && box.height > 10).length;
  bars[0].dispatchEvent(new MouseEvent("mousemove", { clientX: 40, clientY: 40 }));
  document.body.dataset.tip = document.getElementById("tip").textContent;
  document.body.dataset.shown = getComputedStyle(document.getElementById("tip")).opacity;
  const key = document.querySelector('.legend button[data-phase="init"]');
  key.click();
  document.body.dataset.lit = document.querySelectorAll(".bar.lit").length;
  document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth;
});
</script>
<script>
"""


def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no Chromium here: none of {', '.join(BROWSERS)} is on PATH")
    return found


@pytest.mark.parametrize("window", ["1280,1400", "420,900"])
def test_the_timeline_is_drawn(tmp_path, window):
    program = browser()
    views = [view_of(item) for item in all_three()]
    text = page(views, "digits", "2026-01-01 00:00 UTC").replace("<script>\n", PROBE.lstrip(), 1)
    file = tmp_path / "page.html"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            f"--window-size={window}", f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=2000", "--dump-dom", file.as_uri(),
        ],
        capture_output=True, text=True, timeout=50, check=True,
    )  # fmt: skip
    body = done.stdout.partition("<body")[2].partition(">")[0]
    bars = sum(len(view.spans) for view in views)
    assert "data-error" not in body
    assert f'data-bars="{bars}"' in body
    assert f'data-inside="{bars}"' in body
    assert "decide: 5 ms" in body
    assert 'data-shown="1"' in body
    assert 'data-lit="5"' in body
    assert 'data-wide="false"' in body
