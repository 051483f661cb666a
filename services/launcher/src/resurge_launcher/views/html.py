"""Recoveries as one self-contained page: timelines by node and rank, and a table. No network, light and dark. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib import resources
from statistics import median

from resurge_launcher.views.model import CONTROL_PLANE, PHASES, RecoveryView, SpanView, duration, phase_title

ROW_HEIGHT_PX = 22
BAR_MARGIN_PX = 2
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
LABEL_MIN_SHARE = 0.07  # a bar narrower than this share of the track carries no text
Lane = tuple[str, int | None]  # node, rank


def page(views: Sequence[RecoveryView], job_id: str, made_at: str) -> str:
    """The whole page."""
    phases = _phases_of(views)
    title = f"Recoveries of {job_id}" if job_id else "Recoveries"
    cards = "\n".join(_card(place, view) for place, view in enumerate(views, 1))
    body = f"{_figures(views)}{_legend(phases)}{cards}{_table(views, phases)}" if views else _nothing()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="soft">From the first signal of a fault to the first committed optimizer step of every rank.</p>
{body}
<footer>Made {escape(made_at)}. Times are those of the rendezvous service; nodes' clocks are measured by beats.</footer>
</main>
<div id="tip" role="tooltip"></div>
<script>
{_asset("page.js")}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return resources.files("resurge_launcher.views").joinpath("assets", name).read_text(encoding="utf-8")


def _nothing() -> str:
    return '<section class="card"><p>No recovery so far: nothing had to be restarted.</p></section>'


def _phases_of(views: Sequence[RecoveryView]) -> list[str]:
    seen = {name for view in views for name in view.phases}
    return [*(name for name in PHASES if name in seen), *sorted(seen - set(PHASES))]


def _figures(views: Sequence[RecoveryView]) -> str:
    totals = [view.total_s for view in views]
    rows = [
        (str(len(views)), "recovery" if len(views) == 1 else "recoveries"),
        (duration(median(totals)), "median"),
        (duration(max(totals)), "longest"),
        (f"{min(view.coverage for view in views):.0%}", "explained by phases, at least"),
    ]
    cells = (f'<div class="figure"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in rows)
    return f'<section class="figures">{"".join(cells)}</section>'


def _colour(phase: str) -> str:
    return f"--c:var(--{phase if phase in PHASES else 'other'})"


def _legend(phases: Sequence[str]) -> str:
    keys = "".join(
        f'<button type="button" aria-pressed="false" data-phase="{escape(name)}" style="{_colour(name)}"><i></i>'
        f"{escape(phase_title(name))}</button>"
        for name in phases
    )
    return f'<div class="legend" aria-label="Phases">{keys}</div>'


def _card(place: int, view: RecoveryView) -> str:
    restored = f"<span>went on from step <b>{view.restored_step}</b></span>" if view.restored_step is not None else ""
    outcome = f'<b class="{escape(view.outcome.replace(" ", "-"))}">{escape(view.outcome)}</b>'
    verdict_sentence = f'<p class="says soft">{escape(view.verdict_sentence)}</p>' if view.verdict_sentence else ""
    return f"""<section class="card" id="recovery-{place}">
<div class="head"><h2>{place}. {escape(view.reason)}</h2><span class="soft">{escape(view.culprit)}</span>
<span class="total">{duration(view.total_s)}</span></div>
<p class="says">{escape(view.sentence)}</p>
{verdict_sentence}
<div class="chips"><span>{view.started:%Y-%m-%d %H:%M:%S} UTC</span>
<span>verdict <b>{escape(view.verdict)}</b> by {escape(view.decided_by or "-")}, {view.restarts_left} left</span>
<span>generation <b>{escape(view.generations)}</b></span>
<span>cycle <b>{view.cycle}</b></span><span>{outcome}</span>{restored}<span>explained <b>{view.coverage:.0%}</b></span>
<span class="mono">trace {escape(view.trace_id)}</span></div>
{_timeline(view)}
</section>"""


def _timeline(view: RecoveryView) -> str:
    whole_s = max([view.total_s, *(span.end_s for span in view.spans)], default=0.0) or 1e-6
    step_s = _nice_step(whole_s)
    marks = [index * step_s for index in range(int(whole_s / step_s) + 1)]
    ticks = "".join(f'<div class="tick" style="left:{_share(mark, whole_s)}"></div>' for mark in marks[1:])
    axis = "".join(
        f'<span{_last(mark, whole_s)} style="left:{_share(mark, whole_s)}">{_mark(mark, step_s)}</span>'
        for mark in marks
    )
    rows = [f'<div></div><div class="axis">{axis}</div>']
    for lane in _lanes(view.spans):
        spans = [span for span in view.spans if (span.node, span.rank) == lane]
        packed = _packed(spans)
        height = ROW_HEIGHT_PX * (1 + max(packed, default=0))
        bars = "".join(_bar(span, row, whole_s) for span, row in zip(spans, packed, strict=True))
        rows.append(f'{_label(lane)}<div class="track" style="height:{height}px">{ticks}{bars}</div>')
    return f'<div class="lanes">{"".join(rows)}</div>'


def _label(lane: Lane) -> str:
    node, rank = lane
    if rank is None:
        return f'<div class="label node">{escape(node)}</div>'
    return f'<div class="label">rank {rank}</div>'


def _lanes(spans: Sequence[SpanView]) -> list[Lane]:
    """The control plane, then each node with its ranks under it; a node with ranks alone still gets its line."""
    seen = {(span.node, span.rank) for span in spans}
    nodes = sorted({node for node, _ in seen if node != CONTROL_PLANE})
    lanes: list[Lane] = [(CONTROL_PLANE, None)] if (CONTROL_PLANE, None) in seen else []
    for node in nodes:
        lanes.append((node, None))
        lanes.extend((node, rank) for rank in sorted(rank for at, rank in seen if at == node and rank is not None))
    return lanes


def _packed(spans: Sequence[SpanView]) -> list[int]:
    """A row for each span of one lane, so that no two bars of a row overlap; spans come by their starts."""
    free_from: list[float] = []
    rows = []
    for span in spans:
        row = next((index for index, reach in enumerate(free_from) if span.start_s >= reach - 1e-6), len(free_from))
        if row == len(free_from):
            free_from.append(span.end_s)
        else:
            free_from[row] = span.end_s
        rows.append(row)
    return rows


def _bar(span: SpanView, row: int, whole_s: float) -> str:
    start_s, end_s = max(0.0, span.start_s), min(whole_s, max(span.start_s, span.end_s))
    share = max(0.0, end_s - start_s) / whole_s
    where = span.node if span.rank is None else f"{span.node}, rank {span.rank}"
    lines = [
        f"{phase_title(span.name)}: {duration(span.duration_s)}",
        f"{where}, from {duration(max(0.0, span.start_s))} to {duration(max(0.0, span.end_s))}",
    ]
    if span.clock_error_s > 0:
        lines.append(f"clock known to ±{duration(span.clock_error_s)}")
    lines += [f"{name.removeprefix('resurge.')} = {value}" for name, value in span.attributes.items()]
    tip = escape("\n".join(lines))
    text = escape(phase_title(span.name)) if share >= LABEL_MIN_SHARE else ""
    return (
        f'<div class="bar{"" if text else " thin"}" tabindex="0" data-phase="{escape(span.name)}" data-tip="{tip}" '
        f'aria-label="{tip}" style="{_colour(span.name)};left:{_share(start_s, whole_s)};width:{share:.4%};'
        f'top:{row * ROW_HEIGHT_PX + BAR_MARGIN_PX}px">{text}</div>'
    )


def _share(at_s: float, whole_s: float) -> str:
    return f"{at_s / whole_s:.4%}"


def _mark(at_s: float, step_s: float) -> str:
    if at_s == 0:
        return "0"
    return f"{at_s:.10g} s" if step_s >= 0.1 else f"{at_s * 1000:.10g} ms"


def _last(mark: float, whole_s: float) -> str:
    return ' class="last"' if mark / whole_s > 0.96 else ""


def _nice_step(whole_s: float) -> float:
    """A step of 1, 2 or 5 times a power of ten that gives 4 to 10 marks."""
    power = 10.0 ** math.floor(math.log10(whole_s / 4))
    return max(factor * power for factor in (1, 2, 5) if factor * power <= whole_s / 4)


def _table(views: Sequence[RecoveryView], phases: Sequence[str]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("#", "when (UTC)", "reason", "culprit", "verdict", "generation"))
    head += "".join(f'<th class="n">{escape(name)}</th>' for name in ("total", *map(phase_title, phases), "explained"))
    rows = "".join(_table_row(place, view, phases) for place, view in enumerate(views, 1))
    medians = [[view.phases[name] for view in views if name in view.phases] for name in phases]
    cells = "".join(f'<td class="n">{duration(median(found))}</td>' for found in medians)
    total = duration(median(view.total_s for view in views))
    last = f'<tr class="median"><td></td><td>median</td><td colspan="4"></td><td class="n">{total}</td>{cells}<td></td>'
    return (
        f'<section class="card"><h2>All recoveries</h2><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}{last}</tr></tbody></table></div></section>"
    )


def _table_row(place: int, view: RecoveryView, phases: Sequence[str]) -> str:
    took = view.phases
    words = (view.started.strftime("%H:%M:%S"), view.reason, view.culprit, view.verdict, view.generations)
    cells = "".join(f"<td>{escape(word)}</td>" for word in words)
    times = "".join(f'<td class="n">{duration(took[name]) if name in took else "-"}</td>' for name in phases)
    return (
        f'<tr><td><a href="#recovery-{place}">{place}</a></td>{cells}<td class="n"><b>{duration(view.total_s)}</b></td>'
        f'{times}<td class="n">{view.coverage:.0%}</td></tr>'
    )
