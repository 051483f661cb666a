"""What a `resurge run` starts before its own long imports, since theirs take as long: fork server and control plane.

Reads the command line by the table of options, without the parser, whose imports alone take as long as all of this.
Decides nothing and refuses nothing: what it cannot read has no head start, and a server or a control plane that is not
the one that the parsed command line asks for is ended unseen.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from resurge_launcher import early_control
from resurge_launcher import settings as launcher_settings
from resurge_launcher.commands.build import Surroundings, entry_of, run_settings
from resurge_launcher.commands.sources import resolve
from resurge_launcher.control_plan import ControlPlan, control_plan_of
from resurge_launcher.early_control import EarlyControl
from resurge_launcher.flags import OPTIONS
from resurge_launcher.usage import CommandFailed, UsageProblem
from resurge_launcher.warm import fork_server
from resurge_launcher.warm.fork_server import ForkServer, Plan
from resurge_launcher.warm.plan import plan_of

CONFIG_VARIABLE = "PET_FT_CFG_PATH"


@dataclass
class HeadStart:
    """What was taken of the world at the start, and the server that imports by now, if one does."""

    here: Surroundings
    plan: Plan | None = None
    server: ForkServer | None = None
    control: EarlyControl | None = None

    def claim(self, plan: Plan | None) -> ForkServer | None:
        """The server, where it is of this plan; its life is the caller's from here on."""
        server = self.server
        if server is None or plan != self.plan:
            self._end_server()
            return None
        self.server = None
        return server

    def control_of(self, plan: ControlPlan | None) -> EarlyControl | None:
        """The control plane, where it is of this plan; `end` still ends it where nobody has had it begin."""
        control = self.control
        return control if control is not None and control.plan == plan else None

    def end(self) -> None:
        """End what nobody wanted."""
        self._end_server()
        if self.control is not None:
            self.control.end()

    def _end_server(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            server.let_go()
            server.end()


def surroundings() -> Surroundings:
    """What a command sees of the world."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return Surroundings(
        environ=launcher_settings.environment(),
        host_name=socket.gethostname(),
        run_name=f"run-{stamp}-{os.getpid()}",
        python=sys.executable,
    )


def begin(words: Sequence[str]) -> HeadStart:
    """Begin with what follows `resurge run` on the command line."""
    head = HeadStart(surroundings())
    found = _read(words)
    if found is None or CONFIG_VARIABLE in head.here.environ:
        return head
    flags, command = found
    try:
        resolved = resolve(flags, head.here.environ, None)
        settings = run_settings(resolved, entry_of(resolved, command), head.here, None)
    except (UsageProblem, CommandFailed):  # to be told by the parser's own way, with its words
        return head
    head.plan = plan_of(settings)
    if head.plan is not None:
        try:
            head.server = fork_server.start(head.plan)
        except OSError:  # the second try, in its place, says what is wrong
            head.plan = None
    control = control_plan_of(settings)
    if control is not None and early_control.is_worth_it(with_fork_server=head.server is not None):
        with contextlib.suppress(OSError):  # it is started in its place, then
            head.control = early_control.start(control)
    return head


def _read(words: Sequence[str]) -> tuple[dict[str, tuple[str, str]], tuple[str, ...]] | None:
    """Options by name, and the program with its arguments; None for anything out of the ordinary."""
    known = {flag: option for option in OPTIONS for flag in option.flags}
    flags: dict[str, tuple[str, str]] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        option = known.get(name.replace("_", "-"))
        if option is None or (option.is_switch and equals):
            return None
        if not option.is_switch and not equals:
            at += 1
            if at == len(words):
                return None
            value = words[at]
        flags[option.name] = (name, "1" if option.is_switch else value)
        at += 1
    return (flags, tuple(words[at:])) if at < len(words) else None
