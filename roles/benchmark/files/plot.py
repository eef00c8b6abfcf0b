# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw a benchmark entry (JSON on standard input) as SVG and PNG files, and print them as figures of the role report.

Runs on the control node. matplotlib is optional there: without it the output has no figures and says so in `reason`.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

try:
    import matplotlib.figure
    import matplotlib.lines
    import matplotlib.patches
except ImportError:
    matplotlib = None

Cell = dict[str, Any]

# Okabe and Ito's colours, told apart by most colour-blind readers; the order is that of use.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
ON_DARK = ["#56B4E9", "#F0813A", "#2BC49A", "#DDA0C4", "#E9B949", "#8FA8F0"]
INK = {False: ("#1f2328", "#656d76", "#d0d7de"), True: ("#e6edf3", "#9198a1", "#3d444d")}
LATENCY = {"ttft": "time to the first token", "tpot": "time a token", "e2e": "time a request"}


def style(dark: bool) -> dict[str, Any]:
    """Settings of all figures: transparent ground, text as text, light lines."""
    ink, soft, line = INK[dark]
    return {
        "axes.axisbelow": True,
        "axes.edgecolor": line,
        "axes.grid": True,
        "axes.labelcolor": ink,
        "axes.prop_cycle": matplotlib.cycler(color=ON_DARK if dark else COLOURS),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "figure.dpi": 110,
        "font.family": "sans-serif",
        "font.size": 9.5,
        "grid.color": line,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "savefig.transparent": True,
        "svg.fonttype": "none",
        "svg.hashsalt": "dflash",
        "text.color": ink,
        "xtick.color": soft,
        "ytick.color": soft,
    }


def palette() -> list[str]:
    """The colours of the style in force."""
    return [entry["color"] for entry in matplotlib.rcParams["axes.prop_cycle"]]


def order(cells: list[Cell]) -> list[Cell]:
    """One cell a configuration, in the order of the report: plain, chain, trees by budget."""
    seen: dict[str, Cell] = {}
    for cell in cells:
        seen.setdefault(cell["configuration"], cell)
    return list(seen.values())


def levels(cells: list[Cell]) -> list[int]:
    return sorted({cell["concurrency"] for cell in cells})


def spread(cells: list[Cell], key: str) -> tuple[list[float], list[list[float]]]:
    """Values and their error bars; a value that is not known leaves a gap."""
    values = [math.nan if c[key] is None else c[key] for c in cells]
    low = [v - c["interval"][0] if c["interval"] else 0.0 for v, c in zip(values, cells)]
    high = [c["interval"][1] - v if c["interval"] else 0.0 for v, c in zip(values, cells)]
    return values, [low, high]


def throughput(figure: Any, data: dict[str, Any]) -> None:
    """Tokens a second against the budget, one panel a concurrency (their scales differ by much)."""
    names = order(data["cells"])
    place = {c["configuration"]: i for i, c in enumerate(names)}
    panels = levels(data["cells"])
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, level in zip(axes, panels):
        mine = [c for c in data["cells"] if c["concurrency"] == level]
        values, bars = spread(mine, "tokens_per_second")
        spots = [place[c["configuration"]] for c in mine]
        colours = [palette()[2] if c["configuration"] == data["choice"] else palette()[0] for c in mine]
        axis.bar(spots, values, width=0.62, color=colours, alpha=0.85)
        axis.errorbar(spots, values, yerr=bars, fmt="none", ecolor=matplotlib.rcParams["text.color"], capsize=3, lw=1.1)
        current = next((c for c in mine if c["configuration"] == data["current"]), None)
        if current:
            axis.axhline(current["tokens_per_second"], color=palette()[1], lw=1.2, ls="--", zorder=0)
        axis.set_xticks(range(len(names)), [c["label"].replace(" ", "\n" if len(names) > 5 else " ") for c in names])
        axis.set_title(f"{level} request{'s' if level > 1 else ''} at once")
        axis.grid(axis="x", visible=False)
        axis.set_ylim(bottom=0)
    axes[0].set_ylabel("tokens a second, all requests")
    marks = [
        matplotlib.lines.Line2D(
            [], [], color=palette()[1], ls="--", lw=1.2, label=f"served now ({label(data, data['current'])})"
        )
    ]
    if data["choice"]:
        marks.append(
            matplotlib.patches.Patch(color=palette()[2], alpha=0.85, label=f"chosen ({label(data, data['choice'])})")
        )
    figure.legend(handles=marks, loc="outside upper left", ncols=len(marks))


def label(data: dict[str, Any], key: str) -> str:
    return next((c["label"] for c in data["cells"] if c["configuration"] == key), key)


def acceptance(figure: Any, data: dict[str, Any]) -> None:
    """Tokens a verify round against the budget, one line a domain, at the lowest concurrency."""
    axis = figure.subplots()
    level = levels(data["cells"])[0]
    mine = [c for c in data["cells"] if c["concurrency"] == level and c["algorithm"] != "none"]
    domains = sorted({domain for c in mine for domain in c["accept_by_domain"]})
    ends = []
    for colour, domain in zip(palette(), domains):
        values = [
            math.nan if c["accept_by_domain"].get(domain) is None else c["accept_by_domain"][domain] for c in mine
        ]
        axis.plot(range(len(mine)), values, marker="o", ms=5, color=colour)
        last = max((i for i, v in enumerate(values) if not math.isnan(v)), default=None)
        if last is not None:
            ends.append((values[last], last, domain, colour))
    top = max(end[0] for end in ends)
    floor = -math.inf
    for value, last, domain, colour in sorted(ends):
        # Names beside the ends of their lines, pushed apart where two lines end close together.
        floor = max(value, floor + 0.055 * (top - 1))
        axis.annotate(
            domain,
            (last, value),
            xytext=(last + 0.06, floor),
            va="center",
            color=colour,
            weight="bold",
            annotation_clip=False,
        )
    axis.set_xticks(range(len(mine)), [c["label"] for c in mine])
    axis.set_xlim(-0.3, len(mine) - 0.55)
    axis.set_ylabel("tokens a verify round, bonus included")
    axis.set_ylim(1, 1 + 1.08 * (top - 1))


def latency(figure: Any, data: dict[str, Any]) -> None:
    """The bounded latency against the number of requests at once, one line a configuration."""
    axis = figure.subplots()
    panels = levels(data["cells"])
    for colour, name in zip(palette() * 3, order(data["cells"])):
        mine = {c["concurrency"]: c for c in data["cells"] if c["configuration"] == name["configuration"]}
        values = [
            mine[n]["latency_ms"] if n in mine and mine[n]["latency_ms"] is not None else math.nan for n in panels
        ]
        strong = name["configuration"] in (data["current"], data["choice"])
        axis.plot(
            range(len(panels)), values, marker="o", ms=5, color=colour, lw=2.4 if strong else 1.4, label=name["label"]
        )
    if data["latency_bound_ms"]:
        axis.axhline(data["latency_bound_ms"], color=matplotlib.rcParams["text.color"], lw=1, ls="--")
        axis.annotate("bound", (0, data["latency_bound_ms"]), xytext=(0, 3), textcoords="offset points")
    axis.set_xticks(range(len(panels)), [str(n) for n in panels])
    axis.set_xlabel("requests at once")
    quantile, dummy, what = data["latency_metric"].partition("_")
    axis.set_ylabel(f"{LATENCY[what]}, {quantile}, ms")
    axis.set_ylim(bottom=0)
    axis.margins(x=0.15)
    figure.legend(loc="outside right upper")


def histogram(figure: Any, data: dict[str, Any]) -> None:
    """Verify rounds by the tokens they yielded: the chain against the chosen (or fastest) tree."""
    axis = figure.subplots()
    shown = shown_histograms(data)
    top = max(int(n) for c in shown for n in c["histogram"])
    width = 0.8 / len(shown)
    for index, (colour, cell) in enumerate(zip((palette()[0], palette()[2]), shown)):
        rounds = sum(cell["histogram"].values())
        shares = [100 * cell["histogram"].get(str(n), 0) / rounds for n in range(1, top + 1)]
        spots = [n - 0.4 + width * (index + 0.5) for n in range(1, top + 1)]
        axis.bar(
            spots,
            shares,
            width=width * 0.94,
            color=colour,
            alpha=0.9,
            label=f"{cell['label']}, mean {cell['accept_length']:.2f}",
        )
        axis.axvline(cell["accept_length"], color=colour, lw=1.1, ls=":")
    axis.set_xticks(range(1, top + 1))
    axis.set_xlabel("tokens a verify round, bonus included")
    axis.set_ylabel("share of rounds, %")
    axis.grid(axis="x", visible=False)
    axis.legend(loc="upper right")


def shown_histograms(data: dict[str, Any]) -> list[Cell]:
    level = levels(data["cells"])[0]
    mine = [c for c in data["cells"] if c["concurrency"] == level and c["histogram"]]
    chain = [c for c in mine if c["algorithm"] == "dflash"]
    trees = sorted((c for c in mine if c["algorithm"] == "ddtree"), key=lambda c: c["tokens_per_second"] or 0)
    chosen = [c for c in trees if c["configuration"] == data["choice"]] or trees[-1:]
    return chain[:1] + chosen


def round_time(figure: Any, data: dict[str, Any]) -> None:
    """What a round costs against what it yields: where a gain, or its absence, comes from."""
    panels = levels(data["cells"])
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, level in zip(axes, panels):
        mine = [c for c in data["cells"] if c["concurrency"] == level and c["round_ms"]]
        wide = max(c["round_ms"] for c in mine) * 1.3
        high = max(c["accept_length"] or 1 for c in mine) * 1.2
        # Lines of equal speed: tokens a round over milliseconds a round.
        best = max((c["accept_length"] or 1) / c["round_ms"] for c in mine)
        for part in (0.25, 0.5, 0.75, 1.0):
            axis.plot([0, wide], [0, best * part * wide], color=matplotlib.rcParams["grid.color"], lw=1, zorder=0)
        places: list[tuple[float, float]] = []
        for colour, cell in zip(palette() * 3, mine):
            spot = (cell["round_ms"], cell["accept_length"] or 1)
            chosen = cell["configuration"] == data["choice"]
            axis.plot(*spot, marker="D" if chosen else "o", ms=8 if chosen else 6, color=colour, ls="")
            # A name goes to the left of its point where a neighbour's already stands to the right.
            crowded = any(abs(spot[0] - x) < 0.2 * wide and abs(spot[1] - y) < 0.09 * high for x, y in places)
            places.append(spot)
            axis.annotate(
                cell["label"],
                spot,
                xytext=(-7 if crowded else 6, 5),
                textcoords="offset points",
                ha="right" if crowded else "left",
                color=colour,
                weight="bold" if chosen else "normal",
            )
        axis.grid(visible=False)
        axis.set_xlim(0, wide)
        axis.set_ylim(0, high)
        axis.set_xlabel("ms a round")
        axis.set_title(f"{level} request{'s' if level > 1 else ''} at once")
    axes[0].set_ylabel("tokens a round")


def figures(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Name, title, caption, alternative text, size and painter of the figures that the data has something for."""
    panels = len(levels(data["cells"]))
    drafts = [c for c in data["cells"] if c["algorithm"] != "none" and c["accept_by_domain"]]
    found: list[dict[str, Any]] = [
        {
            "name": "throughput",
            "title": "Tokens a second",
            "caption": "Bars: 95 % interval of the noise between visits, each on a fresh server.",
            "alt": "Bars of tokens a second by configuration, one panel for each number of requests at once",
            "size": (max(6.4, 4.1 * panels), 3.5),
            "paint": throughput,
        }
    ]
    if any(v for c in drafts for v in c["accept_by_domain"].values()):
        found.append(
            {
                "name": "acceptance",
                "title": "Acceptance",
                "caption": "A wider tree accepts more of each draft; each further node adds less.",
                "alt": "Lines of tokens a verify round by configuration, one for each domain",
                "size": (6.4, 3.3),
                "paint": acceptance,
            }
        )
    if any(c["round_ms"] for c in data["cells"]):
        found.append(
            {
                "name": "rounds",
                "title": "What a round costs and yields",
                "caption": "Speed is the slope from the origin: up is more accepted, right is more time a round. Grey lines: equal speed.",
                "alt": "Points of tokens a round over milliseconds a round by configuration",
                "size": (max(6.4, 4.1 * panels), 3.5),
                "paint": round_time,
            }
        )
    found.append(
        {
            "name": "latency",
            "title": "Latency",
            "caption": "The latency that the decision is bound by.",
            "alt": "Lines of latency over requests at once, one for each configuration",
            "size": (6.4, 3.3),
            "paint": latency,
        }
    )
    if shown_histograms(data):
        found.append(
            {
                "name": "histogram",
                "title": "Accepted tokens, round by round",
                "caption": "Dotted: mean. One request at once where that was measured.",
                "alt": "Histogram of tokens a verify round, chain and tree",
                "size": (6.4, 3.3),
                "paint": histogram,
            }
        )
    return found


def paint(entry: dict[str, Any], data: dict[str, Any], dark: bool) -> Any:
    figure = matplotlib.figure.Figure(figsize=entry["size"], layout="constrained")
    entry["paint"](figure, data)
    return figure


def compact(svg: str) -> str:
    """An SVG for embedding: without prologue and metadata, and without more digits than a screen shows."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    return re.sub(r"(\d+\.\d{2})\d+", r"\1", svg)


def draw(data: dict[str, Any], prefix: str) -> list[dict[str, str]]:
    """Draw every figure, light and dark; write PREFIX-NAME.svg, .png and -dark.svg, and return the report's figures."""
    result = []
    for entry in figures(data):
        made = {key: entry[key] for key in ("title", "caption", "alt")}
        for dark in (False, True):
            with matplotlib.rc_context(style(dark)):
                figure = paint(entry, data, dark)
                text = io.StringIO()
                figure.savefig(text, format="svg", metadata={"Date": None})
                # One id space a figure: several SVGs share the page.
                svg = compact(text.getvalue())
                svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{entry['name']}{'-d' if dark else ''}-", svg)
                made["svg_dark" if dark else "svg"] = svg
                Path(f"{prefix}-{entry['name']}{'-dark' if dark else ''}.svg").write_text(svg, encoding="utf-8")
                if not dark:
                    figure.savefig(f"{prefix}-{entry['name']}.png", dpi=150, transparent=False, facecolor="white")
        result.append(made)
    return result


def main() -> int:
    """Exit status 0 also without matplotlib: a report without plots is a report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix", required=True, help="path and beginning of the file names")
    args = parser.parse_args()
    data = json.load(sys.stdin)
    answer: dict[str, Any] = {"figures": [], "reason": ""}
    if matplotlib is None:
        answer["reason"] = "matplotlib is not installed for the control node's Python: the report has no plots."
    elif not data["cells"]:
        answer["reason"] = "nothing was measured: the report has no plots."
    else:
        matplotlib.use("Agg")
        Path(args.prefix).parent.mkdir(parents=True, exist_ok=True)
        answer["figures"] = draw(data, args.prefix)
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
