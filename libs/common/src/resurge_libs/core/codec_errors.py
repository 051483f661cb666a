"""What can be wrong with encoded values; each error names the place and what would be right. Pure."""

from __future__ import annotations


class CodecError(ValueError):
    """A value or its bytes do not fit their type."""


class UnsupportedType(CodecError):
    """A field's type has no canonical encoding: a bug in the class, found at its first use."""


class NotCanonical(CodecError):
    """The bytes are not JSON of the expected outer shape."""


class WrongType(CodecError):
    """A value has another type than its field declares."""


class UnknownClass(CodecError):
    """The tag names a class that is not allowed here."""


class UnknownField(CodecError):
    """The bytes hold a field that the class does not have."""


class MissingField(CodecError):
    """The bytes lack a field that has no default."""
