"""Where a launcher's pages are, and that nothing else goes with them."""

from __future__ import annotations

from pathlib import Path

from resurge_launcher.pages import page_home, remove_pages


def test_pages_in_the_run_directory_leave_a_users_own_pages_alone(tmp_path: Path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.html").write_text("mine")
    no_shared_memory = tmp_path / "absent"
    home = page_home(tmp_path, no_shared_memory)
    assert home.parent == tmp_path and home.is_dir()
    remove_pages(tmp_path, no_shared_memory)
    assert not home.exists() and (tmp_path / "pages" / "index.html").read_text() == "mine"
