"""Which rule holds for which files of the repository, with the exceptions and their reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.arch import repo, rules

# Modules other than settings.py that see the environment, each with its reason.
ENVIRONMENT_READERS = {
    "worker_sdk/src/resurge/environment.py": "the SDK's one reader: a training process has no settings file",
}

NOT_TEXT = (".binpb", ".png", ".gz")


def _python() -> tuple[str, ...]:
    return (*repo.product_python(), *repo.test_python())


def _without_settings() -> tuple[str, ...]:
    return tuple(
        name for name in repo.product_python() if not name.endswith("/settings.py") and name not in ENVIRONMENT_READERS
    )


def _texts() -> tuple[str, ...]:
    return tuple(name for name in repo.files() if not name.endswith(NOT_TEXT))


RULES: dict[rules.Rule, Callable[[], Iterable[str]]] = {
    rules.sizes: _python,
    rules.vague_names: repo.product_python,
    rules.environment: _without_settings,
    rules.sleeps: repo.test_python,
    rules.broad_excepts: _python,
    rules.skips: repo.test_python,
    rules.make_targets: lambda: ("Makefile",),
    rules.machine_words: _texts,
}


def found(wanted: Iterable[str]) -> dict[rules.Rule, list[str]]:
    """What each rule finds in these files, as `file:line: sentence`; file after file, so that each is read once."""
    held = {rule: frozenset(names()) for rule, names in RULES.items()}
    wrong: dict[rules.Rule, list[str]] = {rule: [] for rule in RULES}
    for name in wanted:
        for rule in (rule for rule, names in held.items() if name in names):
            wrong[rule] += [f"{name}:{line}: {sentence}" for line, sentence in rule(repo.text(name))]
    return wrong
