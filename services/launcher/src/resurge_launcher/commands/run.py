"""`resurge run`: read the command line, say what is wrong with it or what follows from it, hand over to the agent.

Decides nothing about the job. Everything is checked before anything starts.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from resurge_launcher import settings as launcher_settings
from resurge_launcher.commands.build import entry_of, prove_directories, run_settings
from resurge_launcher.commands.head_start import HeadStart, surroundings
from resurge_launcher.commands.sources import ConfigFile, Sourced, listing, resolve
from resurge_launcher.control_plan import control_plan_of
from resurge_launcher.flags import GROUPS, OPTIONS, Option
from resurge_launcher.settings import Entry, EntryKind, RunSettings
from resurge_launcher.usage import UsageProblem
from resurge_launcher.warm.client import WarmStart
from resurge_launcher.warm.plan import plan_of

CONFIG_FLAG = "--ft-cfg-path"


class RunCommand(click.Command):
    """Options in groups; everything after the script belongs to the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words as typed: messages name the spelling that was used."""
        ctx.meta["typed"] = list(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options by group, the seldom ones left to the reference page."""
        for group in GROUPS:
            rows = [(_spelling(item), _help(item)) for item in OPTIONS if item.group == group and item.is_common]
            with formatter.section(group):
                formatter.write_dl(rows)
        with formatter.section("Configuration"):
            formatter.write_dl([
                (f"{CONFIG_FLAG} FILE", "YAML with sections launcher and limits. Flags and variables win over it."),
                ("--print-config", "Show each setting with its source, and exit."),
                ("-h, --help", "Show this text, and exit."),
            ])  # fmt: skip


def _spelling(option: Option) -> str:
    names = ", ".join(option.flags)
    return names if option.is_switch else f"{names} {option.metavar}"


def _help(option: Option) -> str:
    shown = option.default not in (None, "") and not option.is_switch
    return f"{option.help}  [{option.default}]" if shown else option.help


def _dashes(name: str) -> str:
    return name.replace("_", "-")


def _click_options() -> list[click.Parameter]:
    made: list[click.Parameter] = []
    for option in OPTIONS:
        declared = [*option.flags, option.name]
        if option.is_switch:
            made.append(click.Option(declared, is_flag=True, flag_value="1", default=None, type=str))
        else:
            made.append(click.Option(declared, type=str, default=None))
    made.append(click.Option([CONFIG_FLAG, "ft_cfg_path"], type=str, default=None))
    made.append(click.Option(["--print-config", "print_config"], is_flag=True))
    made.append(click.Argument(["command"], nargs=-1, type=click.UNPROCESSED, metavar="PROGRAM [ARGUMENTS]..."))
    return made


def given_flags(given: Mapping[str, Any], typed: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Options that the command line carries: name to (spelling used, text)."""
    spelled: dict[str, str] = {}
    for word in typed:
        name = word.partition("=")[0]
        spelled.setdefault(_dashes(name), name)
    found = {}
    for option in OPTIONS:
        value = given.get(option.name)
        if value is not None:
            label = next((spelled[flag] for flag in option.flags if flag in spelled), option.flag)
            found[option.name] = (label, str(value))
    return found


def read_config(path_text: str | None, source: str) -> ConfigFile | None:
    """The YAML file; None when none is named. Raises UsageProblem when it cannot be read as settings."""
    if not path_text:
        return None
    import yaml  # late: most runs have no file, and the parser costs start-up time

    try:
        content = yaml.safe_load(Path(path_text).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageProblem(source, f"{path_text}: {error.strerror}", "Name a YAML file that can be read.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = " ".join(str(error).split())
        raise UsageProblem(source, f"{path_text} is not YAML: {where}", "Correct the file.") from None
    if content is None:
        return ConfigFile(path_text, {})
    if not isinstance(content, dict):
        raise UsageProblem(source, f"{path_text} holds no sections", "Write `launcher:` and the settings under it.")
    return ConfigFile(path_text, content)


def print_config(resolved: Mapping[str, Sourced], settings: RunSettings) -> None:
    """Each setting, its value and its source."""
    shown = {
        "nproc_per_node": str(settings.nproc_per_node),
        "job_id": settings.job_id,
        "attempt": str(settings.attempt),
        "node_id": settings.node_id,
        "node_rank": "" if settings.infra_rank is None else str(settings.infra_rank),
        "rdzv_endpoint": str(settings.endpoint or "embedded"),
        "segment": str(settings.segment),
        "domain": settings.domain,
        "state_dir": str(settings.state_dir),
        "run_dir": str(settings.run_dir),
        "log_dir": str(settings.log_dir or settings.state_dir / "logs"),
        **{row.name: f"{row.value_s:g}" for row in settings.limits.table()},
    }
    if settings.rank_heartbeat_limit_s is None:
        shown["hang_limit_s"] = "never"
    rows = listing(resolved, shown)
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for key, value, source in rows:
        click.echo(f"{key:<{widths[0]}}  {value:<{widths[1]}}  {source}")


def _run(**given: Any) -> int:
    context = click.get_current_context()
    typed, head = context.meta["typed"], context.obj or HeadStart(surroundings())
    environ = head.here.environ
    config_source = CONFIG_FLAG if given["ft_cfg_path"] else "PET_FT_CFG_PATH"
    config = read_config(given["ft_cfg_path"] or environ.get("PET_FT_CFG_PATH"), config_source)
    resolved = resolve(given_flags(given, typed), environ, config)
    if given["print_config"] and not given["command"]:
        entry = Entry(EntryKind.SCRIPT, "")
    else:
        entry = entry_of(resolved, tuple(given["command"]))
    settings = run_settings(resolved, entry, head.here, Path(config.path) if config else None)
    if given["print_config"]:
        print_config(resolved, settings)
        return 0
    prove_directories(resolved, settings)
    for sentence in settings.notices:
        click.echo(f"resurge: {sentence}", err=True)
    warm = _warm(settings, head)
    launcher_settings.calm_grpc()
    # late: gRPC costs start-up time, and bad input needs none of it
    agent = importlib.import_module("resurge_launcher.agent")
    return int(agent.run(settings, warm, head.control_of(control_plan_of(settings))))


def _warm(settings: RunSettings, head: HeadStart) -> WarmStart | None:
    """The keeper of the fork server, which has its head start already or is started now."""
    plan = plan_of(settings)
    begun = head.claim(plan)
    if plan is None:
        return None
    warm = WarmStart(plan, begun, settings.limits)
    if begun is None:
        warm.begin()
    return warm


command = RunCommand(
    "run",
    callback=_run,
    params=_click_options(),
    options_metavar="[OPTIONS]",
    help="Run a training program on this node's share of a job, and keep it running through faults.\n\n"
    "torchrun's options mean what they mean there; everything after the program belongs to the program.",
    epilog="Every option also has a variable, RESURGE_LAUNCHER__<FIELD> or RESURGE_LIMITS__<FIELD>; torchrun's "
    "PET_<NAME> are read too.",
    context_settings={
        "allow_interspersed_args": False,
        "token_normalize_func": _dashes,
        "help_option_names": ["-h", "--help"],
        "max_content_width": 110,
    },
)
