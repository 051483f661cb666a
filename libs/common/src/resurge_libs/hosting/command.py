"""The command line of a host: one option per setting of the host and of every service it knows. Decides nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import click

from resurge_libs.config.flags import settings_options
from resurge_libs.config.settings import ServiceSettings, UsageProblem, print_config
from resurge_libs.hosting.module import Target
from resurge_libs.hosting.run import exit_with, run
from resurge_libs.hosting.settings import HostSettings, LimitSettings, plan
from resurge_libs.obs.outlets import EXIT_READER_LEFT, ReaderLeft, open_closed_streams, reader_may_leave, settled


class _Command(click.Command):
    """One that click does not end with 1 where its reader has left."""

    def make_context(self, *words: Any, **named: Any) -> click.Context:
        with _quietly():
            return super().make_context(*words, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with _quietly():
            return super().invoke(ctx)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    try:
        with reader_may_leave():
            yield
    except ReaderLeft:
        raise SystemExit(settled(EXIT_READER_LEFT)) from None


def host_command(prog: str, known: Sequence[Target], about: str) -> click.Command:
    """The command that serves any subset of the known services; one that knows a single service serves it."""

    def serve(ft_cfg_path: str | None, show_config: bool, **arguments: Any) -> None:
        open_closed_streams()
        try:
            planned = plan(known, arguments, ft_cfg_path)
            if show_config:
                click.echo(print_config(*planned.loaded))
                code = 0
            else:
                code = run(prog, planned)
        except UsageProblem as problem:
            code = exit_with(prog, problem)
        raise SystemExit(code)

    function: Any = serve
    classes: list[type[ServiceSettings]] = [HostSettings, LimitSettings, *(target.settings for target in known)]
    for cls in reversed(classes):
        leave_out = ("targets",) if cls is HostSettings and len(known) == 1 else ()
        function = settings_options(cls, leave_out)(function)
    function = click.option("--print-config", "show_config", is_flag=True, help="Show each setting and its source.")(
        function
    )
    function = click.option("--ft-cfg-path", "--ft_cfg_path", "ft_cfg_path", help="YAML file with settings.")(function)
    return click.command(prog, _Command, help=about)(function)
