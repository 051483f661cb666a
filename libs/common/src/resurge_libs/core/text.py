"""Texts that every wire takes. Pure."""

from __future__ import annotations


def whole_text(text: str) -> str:
    """The text without halves of surrogate pairs, as a path or a message that is no UTF-8 leaves them."""
    return text.encode("utf-8", "replace").decode()
