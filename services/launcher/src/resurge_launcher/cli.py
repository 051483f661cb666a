"""The `resurge` command: finds the subcommand and imports only that one; turns every refusal into one clear line.

Exit codes: those of `resurge run` are the job's; 2 for unusable input; 1 when a command could not do its work;
141 when nobody reads what it prints any more.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from resurge_libs.obs.outlets import EXIT_READER_LEFT, ReaderLeft, open_closed_streams, reader_may_leave, settled

VERSION = "0.1.0"
RUN = "run"
IMPORT_THRESHOLDS = (50_000, 20, 50)
"""Of what a launcher imports hardly anything is garbage, and it lives for long: looking for some takes a twentieth."""

# name: (module, what it does)
COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType({
    "run": ("resurge_launcher.commands.run", "Run a training program and keep it running through faults."),
    "serve": ("resurge_launcher.commands.serve", "Start the control plane, all of it or some of its services."),
    "status": ("resurge_launcher.commands.status", "Show the job: phase, generation, restarts, nodes."),
    "nodes": ("resurge_launcher.commands.nodes", "Show the job's nodes: what each is, and what is held against it."),
    "exclude": ("resurge_launcher.commands.exclude", "Keep a node's machine out of later rounds."),
    "readmit": ("resurge_launcher.commands.readmit", "End the exclusion of a node's machine."),
    "recoveries": ("resurge_launcher.commands.recoveries", "Show what each recovery did and how long each phase took."),
    "cycles": ("resurge_launcher.commands.cycles", "Show each cycle: where it ran, what ended it, the pause after it."),
    "diagnose": ("resurge_launcher.commands.diagnose", "Show all that is known of one cycle, logs and ranks."),
    "explain": ("resurge_launcher.commands.explain", "Say why an incident got its verdict, rule by rule."),
    "verdict": ("resurge_launcher.commands.verdict", "Show how the job ended; --exit-code for batch scripts."),
    "report": ("resurge_launcher.commands.report", "Show where the job's time went: goodput, lost steps, each phase."),
    "drain": ("resurge_launcher.commands.drain", "Have the ranks save and stop at one step, because a node is to go."),
    "logs": ("resurge_launcher.commands.reading_logs", "Show what workers printed, live or later."),
    "shutdown": ("resurge_launcher.commands.shutdown", "End the job as asked."),
})  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    open_closed_streams()
    try:
        with reader_may_leave():
            code = _command(words)
    except ReaderLeft:
        code = EXIT_READER_LEFT
    return settled(code)


def _command(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        print(f"resurge {VERSION}")
        return 0
    if words[:1] != [RUN]:
        return _dispatch(words)
    usual = gc.get_threshold()
    gc.set_threshold(*IMPORT_THRESHOLDS)
    # first of all: what its fork server imports takes longer than all that the launcher does meanwhile
    from resurge_launcher.commands import head_start

    head = head_start.begin(words[1:])
    try:
        return _dispatch(words, head)
    finally:
        head.end()
        gc.set_threshold(*usual)


def _dispatch(words: list[str], head: Any = None) -> int:
    import click

    from resurge_launcher.usage import EXIT_USAGE, CommandFailed, UsageProblem, sentence_of

    name = words[0] if words and not words[0].startswith("-") else ""
    try:
        result: Any = _group().main(args=words, prog_name="resurge", standalone_mode=False, obj=head)
    except UsageProblem as problem:
        print(sentence_of(problem, name), file=sys.stderr)
        return EXIT_USAGE
    except click.UsageError as error:
        print(sentence_of(_as_problem(error, name), name), file=sys.stderr)
        return EXIT_USAGE
    except CommandFailed as failed:
        print(f"resurge {name}: {failed}", file=sys.stderr)
        return failed.exit_code
    except click.exceptions.Exit as leave:
        return int(leave.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    return result if isinstance(result, int) else 0


def _group() -> Any:
    import click

    class LazyGroup(click.Group):
        # click would end the process itself, with 1, where it meets a reader that has left
        def make_context(self, *words: Any, **named: Any) -> click.Context:
            with reader_may_leave():
                return super().make_context(*words, **named)

        def invoke(self, ctx: click.Context) -> Any:
            with reader_may_leave():
                return super().invoke(ctx)

        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in COMMANDS:
                return None
            module = importlib.import_module(COMMANDS[cmd_name][0])
            found: click.Command = module.command
            return found

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, says) for name, (_, says) in COMMANDS.items()])

    group = LazyGroup(
        "resurge",
        help="Keep distributed PyTorch training running through faults.\n\n"
        "One machine, four workers, three restarts:\n\n"
        "    resurge run --nproc-per-node 4 --max-restarts 3 train.py\n\n"
        "Then `resurge recoveries` shows what each recovery did.",
        epilog="Help on one command: resurge COMMAND --help",
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=False,
        invoke_without_command=True,
    )
    group.params.append(click.Option(["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version))

    @click.pass_context
    def show_help(ctx: click.Context) -> None:
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())

    group.callback = show_help
    return group


def _version(ctx: Any, _: Any, wanted: bool) -> None:
    if wanted:
        print(f"resurge {VERSION}")
        ctx.exit()


def _as_problem(error: Any, name: str) -> Any:
    """The parser's complaint in the house's form."""
    import click

    from resurge_launcher.flags import OPTIONS, REFUSED
    from resurge_launcher.usage import UsageProblem, unknown

    match error:
        case click.NoSuchOption():
            option = error.option_name.replace("_", "-")
            if name == "run" and option in REFUSED:
                return UsageProblem(option, "is refused", REFUSED[option])
            if name == "run":
                known = [flag for item in OPTIONS for flag in item.flags]
            else:
                known = [flag for item in (error.ctx.command.params if error.ctx else ()) for flag in item.opts]
            return unknown(error.option_name, "option", option, [*known, "--help"])
        case click.BadOptionUsage():
            return UsageProblem(error.option_name, error.format_message().rstrip("."), "See resurge run --help.")
        case _ if error.ctx is not None and error.ctx.command.name == "resurge":
            return unknown(name, "command", name, COMMANDS)
        case _:
            return UsageProblem("command line", error.format_message().rstrip("."), f"See resurge {name} --help.")


if __name__ == "__main__":
    sys.exit(main())
