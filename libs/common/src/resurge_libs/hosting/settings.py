"""What a host of services is told, and the one place of a service process that sees the environment.

Flags, `RESURGE_<SECTION>__<FIELD>`, YAML (`--ft-cfg-path`) and defaults, in this order; the job token comes from
`RESURGE_JOB_TOKEN` alone, so that no secret stands in a command line. Refuses what cannot work before anything starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, create_model

from resurge_libs.config.durations import NEVER, seconds_of
from resurge_libs.config.flags import flags_of
from resurge_libs.config.settings import Loaded, ServiceSettings, UsageProblem, load, suggestion
from resurge_libs.core.limit_rows import ROWS
from resurge_libs.core.time_limits import TimeLimits, WrongOrder
from resurge_libs.hosting.module import Target
from resurge_libs.hosting.usage import UsageError
from resurge_libs.obs import log
from resurge_libs.rpc.auth import TOKEN_VARIABLE
from resurge_libs.rpc.endpoint import BadEndpoint, Endpoint, parse_endpoint

ALL = "all"
DEFAULT_PORT = 7470
OTLP_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
OTLP_TRACES_VARIABLE = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
OTHER_SECTIONS = ("launcher", "log_leaf", "policy", "relay", "rendezvous")
"""Sections of a shared settings file that belong to other programs, or to services that do not run in this one."""


class HostSettings(ServiceSettings):
    """Which services run here, where they listen, and how long the process lives."""

    SECTION: ClassVar[str] = "host"

    targets: Annotated[tuple[str, ...], "Services to run: all, or names separated by commas."] = (ALL,)
    listen: Annotated[str, "Where to listen: unix:/path, or host:port (port 0 takes a free one)."] = (
        f"127.0.0.1:{DEFAULT_PORT}"
    )
    state_dir: Annotated[Path | None, "Directory of the journal and the records; belongs to one job."] = None
    job_id: Annotated[str, "Serve this job only; without it, the first job that comes."] = ""
    addresses: Annotated[tuple[str, ...], "Where services outside this process are: name=endpoint."] = ()
    exit_when_ended: Annotated[bool, "End by itself when the job is over and every launcher knows."] = False
    exit_with: Annotated[int, "End soon after this parent process has ended; 0 for none."] = 0
    log_json: Annotated[bool, "Write log events as JSON lines."] = False


class LimitTable(ServiceSettings):
    """The time limits of a service process; one field per row of the table, None where the row's own rule gives it."""

    SECTION: ClassVar[str] = "limits"

    def limits(self) -> TimeLimits:
        """The whole table. Raises UsageProblem naming two values in a wrong order."""
        given = {name: value for name, value in self.model_dump().items() if value is not None}
        try:
            return TimeLimits(**given)
        except WrongOrder as error:
            raise UsageProblem(f"limits: {error}") from None


def _duration(value: object) -> object:
    """A duration as files and variables write it; `none` asks for the table's own value."""
    if not isinstance(value, str):
        return value
    return None if value.strip().lower() in NEVER else seconds_of(value)


# every row, so that one file and one environment serve launchers and services alike
_LIMIT_FIELDS: dict[str, Any] = {
    row.name: (Annotated[float | None, BeforeValidator(_duration), f"{row.bounds}; {row.derived_from}."], None)
    for row in ROWS
}
LimitSettings: type[LimitTable] = create_model("LimitSettings", __base__=LimitTable, **_LIMIT_FIELDS)


@dataclass(frozen=True, slots=True)
class HostPlan:
    """Everything that one host was told, checked."""

    host: HostSettings
    targets: tuple[Target, ...]
    services: Mapping[str, Loaded[Any]]
    limits: TimeLimits
    listen: Endpoint
    addresses: Mapping[str, Endpoint]
    token: str | None
    otlp_endpoint: str | None
    """`OTEL_EXPORTER_OTLP_ENDPOINT`; the exporter reads the other standard variables itself."""
    loaded: tuple[Loaded[Any], ...]
    """For --print-config."""
    colours: bool = False
    """Whether log events at a terminal get colours."""


def plan(
    known: Sequence[Target],
    arguments: Mapping[str, Any],
    yaml_path: str | None,
    environ: Mapping[str, str] | None = None,
) -> HostPlan:
    """Read and check everything that was given. Raises UsageProblem."""
    given = dict(arguments)
    variables = os.environ if environ is None else environ
    sections = (HostSettings.SECTION, LimitSettings.SECTION, *(target.settings.SECTION for target in known))

    def read(cls: type[ServiceSettings]) -> Loaded[Any]:
        return load(cls, flags_of(cls, given), variables, yaml_path, known_sections=(*sections, *OTHER_SECTIONS))

    host, limits = read(HostSettings), read(LimitSettings)
    chosen = chosen_targets(host.settings.targets, known)
    services = {target.name: read(target.settings) for target in chosen}
    if host.settings.state_dir is None and any(target.keeps_state for target in chosen):
        keepers = ", ".join(target.name for target in chosen if target.keeps_state)
        raise UsageError("--state-dir", "is missing", f"give the directory in which {keepers} keeps the job's journal")
    return HostPlan(
        host=host.settings,
        targets=chosen,
        services=services,
        limits=limits.settings.limits(),
        listen=_endpoint("--listen", host.settings.listen),
        addresses=_addresses(host.settings.addresses, _addressable(known)),
        token=variables.get(TOKEN_VARIABLE) or None,
        otlp_endpoint=variables.get(OTLP_VARIABLE) or variables.get(OTLP_TRACES_VARIABLE) or None,
        loaded=(host, limits, *services.values()),
        colours=log.wants_colours(variables),
    )


def chosen_targets(names: Iterable[str], known: Sequence[Target]) -> tuple[Target, ...]:
    """The targets by these names, in the host's order. Raises UsageError for an unknown name, with a suggestion."""
    wanted = [part.strip() for name in names for part in name.split(",") if part.strip()]
    choices = [ALL, *(target.name for target in known)]
    for name in wanted:
        if name not in choices:
            hint = suggestion(name, choices).removeprefix("; ")
            raise UsageError("--targets", f"there is no service {name!r}", hint)
    if not wanted:
        raise UsageError("--targets", "is empty", f"known are {', '.join(choices)}")
    of_all = known if len(known) == 1 else [target for target in known if not target.stands_alone]
    chosen = tuple(target for target in known if target.name in wanted or (ALL in wanted and target in of_all))
    alone = next((target.name for target in chosen if target.stands_alone), None)
    if alone is not None and len(chosen) > 1:
        raise UsageError("--targets", f"{alone} stands in for another service", "run it in a process of its own")
    return chosen


def _addressable(known: Sequence[Target]) -> list[str]:
    names = (name for target in known for name in (target.name, *target.calls))
    return list(dict.fromkeys(names))


def _addresses(pairs: Iterable[str], known: Sequence[str]) -> dict[str, Endpoint]:
    found: dict[str, Endpoint] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError("--addresses", f"{pair!r} is no address", "give name=host:port or name=unix:/path")
        if name not in known:
            raise UsageError("--addresses", f"there is no service {name!r}", suggestion(name, known).removeprefix("; "))
        found[name] = _endpoint("--addresses", text)
    return found


def _endpoint(field: str, text: str) -> Endpoint:
    try:
        return parse_endpoint(text)
    except BadEndpoint as error:
        raise UsageError(field, str(error), "give unix:/path or host:port") from error
