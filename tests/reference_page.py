"""Writes docs/reference.md from the tables that the commands themselves use: python -m tests.reference_page."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path

import click

from resurge_host.targets import TARGETS
from resurge_launcher.cli import COMMANDS
from resurge_launcher.commands import rdzv_conf
from resurge_launcher.flags import LIMITS, OPTIONS, QUIET, REFUSED, Option
from resurge_libs.config.settings import Flag, ServiceSettings, documentation_of
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.hosting.settings import HostSettings

PAGE = Path(__file__).parent.parent / "docs" / "reference.md"
READING = (
    "status",
    "nodes",
    "exclude",
    "readmit",
    "recoveries",
    "cycles",
    "diagnose",
    "explain",
    "verdict",
    "report",
    "drain",
    "logs",
    "shutdown",
)

HEAD = """# Reference

Made from the tables that the commands use; `python -m tests.reference_page` writes it anew, and a test compares.

## Where a setting comes from

The first of these that names it: the flag; the variable `RESURGE_<SECTION>__<FIELD>`; torchrun's variable `PET_<NAME>`;
the YAML file given with `--ft-cfg-path` (or `PET_FT_CFG_PATH`); the default. `resurge run --print-config` shows each
value with its source and exits. Dashes and underscores are the same; abbreviations are refused. An unknown flag,
section, key, or variable of that form is an error with a suggestion. In the file, a setting stands under its section:

```yaml
launcher:
  nnodes: 2:3
  max_restarts: 10
  signals_to_handle: [SIGTERM, SIGINT, SIGUSR1]
limits:
  lease_ttl_s: 5
  hang_limit_s: null    # no heartbeat limit
rendezvous: {}          # sections of services are read by `resurge serve`
```

Everything after the program belongs to the program. Input that cannot be used ends with exit code 2 and one line that
names the field and what would be right, before anything is started.
"""

LIMITS_HEAD = """Variables are `RESURGE_LIMITS__<FIELD>`. Values are seconds, or have a unit: `500ms`, `2s`, `10m`,
`1h`. What follows from another value may still be given. A wrong order is refused with both values named.
`--ft-rank-heartbeat-timeout none` switches the heartbeat limit off.
"""

SERVE_HEAD = """Starts the control plane, all of it or some of its services; each service also starts alone, for example
by `python -m resurge_rendezvous`. Time limits are those of `resurge run`; `--print-config` shows all values with their
sources.
"""

TAIL = """## Exit codes of `resurge run`

| code | meaning |
| --- | --- |
| 0 | the job succeeded, or this node was a spare that was released |
| 1 | the job failed: no restart left, no quorum in time, control plane lost too long; or this node left as excluded |
| 2 | nothing was started: unusable input, a node that is already attached, a control plane that was never reached |
| 93 | do not requeue: a restart would not help (`--ft-no-restart-exit-code`) |
| 128 + n | signal n ended the launcher before there was a decision; 137 also after a `--take-over` by another |

A launcher that holds the job's decision exits with its code, also when it is signalled meanwhile; each cause has its
row in [how a job ends](endings.md).
`resurge verdict --exit-code` prints the job's code from the durable record, for batch scripts:
`exit $(resurge verdict --exit-code --state-dir DIR)`.

## Other variables

| variable | meaning |
| --- | --- |
| `RESURGE_MACHINE_ID` | which machine this is; for containers and simulated nodes, see [nodes](nodes.md) |
| `RESURGE_JOB_TOKEN` | shared secret; a must unless the endpoint is loopback or a Unix socket; workers do not get it |
| `SLURM_JOB_ID`, `SLURM_ARRAY_JOB_ID`, `SLURM_ARRAY_TASK_ID` | default of the job id |
| `RESURGE_CURRENT_CYCLE_INFO`, `NVRX_CURRENT_CYCLE_INFO` | told to workers: the record of their cycle; of the newest |
| `RESURGE_RENDEZVOUS__CYCLE_INFO_DIR` | `--ft-cycle-info-dir` for a control plane that was started by other means |
| `SLURM_RESTART_COUNT` | default of the attempt, plus 1 |
| `SLURMD_NODENAME`, `SLURM_NODEID` | default of the node id |
| `SLURM_TOPOLOGY_ADDR`, `SLURM_TOPOLOGY_ADDR_PATTERN` | default of the domain |
| `SLURM_PROCID`, else `GROUP_RANK` | order of the nodes, where `--node-rank` is not given |
| `SLURM_STEP_NUM_NODES` | a step on several nodes without `--nnodes` is refused: each node would train alone |
| `PYTHON_EXEC` | interpreter of scripts and modules |
| `XDG_STATE_HOME`, `XDG_RUNTIME_DIR` | where state and sockets go by default |
| `NO_COLOR`, `TERM` | whether log lines on a terminal are coloured |
| `OTEL_EXPORTER_OTLP_ENDPOINT` and its kin | where traces go, beside the JSON lines that are always written |

## Files in the state directory

| file | content |
| --- | --- |
| `control.json` | who serves here, and where; gone after an orderly end |
| `recoveries.jsonl` | one recovery record per line; the last line of an incident holds |
| `job.json` | the job as it last stood, with its end |
| `cycles/` | the record of each cycle, unless `--ft-cycle-info-dir` says otherwise; see [records.md](records.md) |
| `spans.jsonl` | the spans of every recovery, one per line |
| `logs/` | per-rank output, unless `--log-dir` says otherwise |
| `control-plane.log` | what a control plane started here says; longer than 8 MiB, it becomes `….log.1` |

A `.jsonl` file of 3 MiB becomes `….jsonl.1`, and so on up to `.3`. All of it stays below 64 MiB however long the job
runs (`make bench-journal`), but for `logs/` and for what the job puts into the store. Records that are no longer kept
are counted, and `resurge recoveries` says how many there were.
"""


def text() -> str:
    """The whole page."""
    parts = [HEAD, "## `resurge run`\n"]
    groups = dict.fromkeys(option.group for option in OPTIONS)
    for group in groups:
        if group not in (LIMITS, QUIET):
            parts.append(f"### {group}\n\n{_option_table(item for item in OPTIONS if item.group == group)}")
    parts.append(f"### Keys of `--rdzv-conf`\n\n{_rdzv_conf()}")
    parts.append(f"### Time limits\n\n{_limits()}")
    parts.append(f"### Accepted without effect\n\n{_option_table(item for item in OPTIONS if item.group == QUIET)}")
    parts.append(f"### Options of other launchers that are refused\n\n{_refused()}")
    parts += [_reading(name) for name in READING]
    parts.append(f"## `resurge serve`\n\n{_serve()}")
    parts.append(TAIL)
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _option_table(options: Iterable[Option]) -> str:
    rows = ["| option | default | meaning | variables | key |", "| --- | --- | --- | --- | --- |"]
    for item in options:
        value = "" if item.is_switch else f" {item.metavar}"
        flags = ", ".join(f"`{flag}{value}`" for flag in item.flags)
        variables = ", ".join(f"`{name}`" for name in (item.variable, *item.pet_variables))
        default = "off" if item.is_switch else f"`{item.default}`" if item.default else ""
        rows.append(f"| {_cell(flags)} | {default} | {_cell(item.help)} | {variables} | `{item.key}` |")
    return "\n".join(rows) + "\n"


def _limits() -> str:
    rows = ["| option | key | default (s) | follows from | bounds |", "| --- | --- | --- | --- | --- |"]
    options = {item.name: item for item in OPTIONS if item.section == "limits"}
    for row in TimeLimits().table():
        option = options[row.name]
        flags = ", ".join(f"`{flag}`" for flag in option.flags)
        rows.append(f"| {flags} | `{option.key}` | {row.value_s:g} | {row.derived_from} | {row.bounds} |")
    return f"{LIMITS_HEAD}\n" + "\n".join(rows)


def _rdzv_conf() -> str:
    limits = ", ".join(f"`{key}` (sets `{name}`)" for key, name in rdzv_conf.LIMIT_OF.items())
    quiet = ", ".join(f"`{key}`" for key in sorted(rdzv_conf.WITHOUT_EFFECT))
    host = "`is_host` (start the control plane here, or never; by default the launcher on the endpoint's host does)"
    return f"{host}, `segment`, {limits}.\nAccepted without effect: {quiet}.\nOthers are refused."


def _refused() -> str:
    rows = ["| option | why |", "| --- | --- |"]
    return "\n".join([*rows, *(f"| `{flag}` | {why} |" for flag, why in REFUSED.items())])


def _reading(name: str) -> str:
    command: click.Command = importlib.import_module(COMMANDS[name][0]).command
    if isinstance(command, click.Group):
        return "\n\n".join(_section(f"{name} {part}", below) for part, below in command.commands.items())
    return _section(name, command)


def _section(name: str, command: click.Command) -> str:
    rows = ["| option | meaning |", "| --- | --- |"]
    for item in command.params:
        if isinstance(item, click.Option):
            value = "" if item.is_flag else f" {item.metavar or item.type.name.upper()}"
            rows.append(f"| {', '.join(f'`{flag}{value}`' for flag in item.opts)} | {_cell(item.help or '')} |")
    arguments = "".join(f" [{item.name.upper()}]" for item in command.params if isinstance(item, click.Argument))
    about = " ".join((command.help or "").split())
    return f"## `resurge {name}{arguments}`\n\n{about}\n\n" + "\n".join(rows)


def _serve() -> str:
    parts = [SERVE_HEAD, _settings(HostSettings)]
    for target in TARGETS:
        if target.settings.model_fields:
            parts.append(f"\n### `--targets {target.name}`\n\n{_settings(target.settings)}")
    return "\n".join(parts)


def _settings(cls: type[ServiceSettings]) -> str:
    rows = ["| option | default | meaning | variable |", "| --- | --- | --- | --- |"]
    for field, info in cls.model_fields.items():
        further = [name for item in info.metadata if isinstance(item, Flag) for name in item.names]
        flags = ", ".join(f"`{flag}`" for flag in (f"--{field.replace('_', '-')}", *further))
        variable = f"RESURGE_{cls.SECTION.upper()}__{field.upper()}"
        rows.append(f"| {flags} | {_default(info.default)} | {_cell(documentation_of(info))} | `{variable}` |")
    return "\n".join(rows)


def _default(value: object) -> str:
    if isinstance(value, bool):
        return "`on`" if value else "off"
    if value in (None, "", ()):
        return ""
    return f"`{','.join(map(str, value)) if isinstance(value, tuple) else value}`"


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text(), encoding="utf-8")
