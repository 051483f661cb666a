"""What a project's own tests need to keep the promises that the SDK relies on. Never imported by `import resurge`."""

from resurge.testing.sentinel import assert_sentinel

__all__ = ["assert_sentinel"]
