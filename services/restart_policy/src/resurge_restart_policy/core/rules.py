"""The policy's rules in their order of precedence. Pure: each sees the incident and the settings, nothing else.

The order is the contract: job already succeeded, shutdown requested, latched no-restart verdict, no progress,
exclusion leaves too few nodes, budget, budget of the cause, repeat offender, restart. All but the two about machines
are the functions of the default verdict, so that policy and its stand-in cannot drift apart; all live in libs, so that
a record can be replayed without this service.
"""

from __future__ import annotations

from resurge_libs.core.named_rules import POLICY_RULES, NamedRule

ORDER: tuple[NamedRule, ...] = POLICY_RULES
