"""The reference page says what the commands do."""

from __future__ import annotations

from resurge_host.targets import TARGETS
from resurge_launcher.flags import OPTIONS
from tests import reference_page


def test_the_page_is_fresh():
    message = "run: python -m tests.reference_page"
    assert reference_page.PAGE.read_text(encoding="utf-8") == reference_page.text(), message


def test_every_flag_stands_on_the_page():
    page = reference_page.text()
    assert [flag for item in OPTIONS for flag in item.flags if f"`{flag}" not in page] == []


def test_every_setting_of_every_service_stands_on_the_page():
    page = reference_page.text()
    fields = [field for target in TARGETS for field in target.settings.model_fields]
    assert [field for field in fields if f"| `--{field.replace('_', '-')}`" not in page] == []
