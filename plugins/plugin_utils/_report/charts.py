# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures as inline SVG. Colours are CSS classes of the page, so one picture serves light and dark."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from markupsafe import Markup

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 400.0, 38.0, 8.0, 30.0, 42.0


def histogram_counts(value: t.Any) -> dict[int, int]:
    """Return {tokens a round: rounds} without gaps between the smallest and the largest length.

    A list counts from one token: a verify round always yields at least the target's own token. A mapping names
    the lengths itself. Anything else, negative counts included, is no histogram and gives {}.
    """
    pairs: list[tuple[t.Any, t.Any]]
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, (list, tuple)):
        pairs = list(enumerate(value, start=1))
    else:
        return {}
    counts: dict[int, int] = {}
    for length, rounds in pairs:
        try:
            number, many = int(length), int(rounds)
        except (TypeError, ValueError):
            return {}
        if number < 0 or many < 0:
            return {}
        counts[number] = counts.get(number, 0) + many
    used = [length for length, rounds in counts.items() if rounds]
    if not used:
        return {}
    return {length: counts.get(length, 0) for length in range(min(1, *used), max(used) + 1)}


def histogram_mean(counts: Mapping[int, int]) -> float | None:
    """Return the mean tokens a round, or None without any round."""
    rounds = sum(counts.values())
    return sum(length * many for length, many in counts.items()) / rounds if rounds else None


def nice_ceiling(value: float) -> float:
    """Return the top of a percentage axis: a round number not below `value` whose half is round too."""
    return next((float(top) for top in (2, 4, 6, 10, 20, 30, 40, 50, 60, 80) if top >= value), 100.0)


def histogram_svg(value: t.Any, mean: t.Any = None) -> Markup:
    """Draw how many tokens the verify rounds yielded, as shares of all rounds; empty where there is no data.

    Args:
        value: counts as `histogram_counts` takes them.
        mean: the mean to mark; worked out from the counts where it is not a number.
    """
    counts = histogram_counts(value)
    if not counts:
        return Markup("")
    total = sum(counts.values())
    average = float(mean) if isinstance(mean, (int, float)) and not isinstance(mean, bool) else histogram_mean(counts)
    top = nice_ceiling(100.0 * max(counts.values()) / total)
    height = 210.0
    plot_w, plot_h = _WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM
    slot = plot_w / len(counts)
    bar_width = min(slot * 0.72, 34.0)
    first = min(counts)

    def x_of(length: float) -> float:
        return _LEFT + (length - first + 0.5) * slot

    def y_of(share: float) -> float:
        return _TOP + plot_h * (1.0 - share / top)

    parts = [
        Markup('<svg class="chart" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">').format(
            _WIDTH, height, describe_histogram(counts, average)
        )
    ]
    for part in (0.0, 0.5, 1.0):
        share = top * part
        parts.append(
            Markup(
                '<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
                '<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="end">{}%</text>'
            ).format(_LEFT, _WIDTH - _RIGHT, _LEFT - 6, y_of(share) + 4, f"{share:g}", y=y_of(share))
        )
    for length, many in counts.items():
        share = 100.0 * many / total
        bar_height = plot_h * share / top
        parts.append(
            Markup(
                '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2"><title>{}</title></rect>'
            ).format(
                x_of(length) - bar_width / 2,
                y_of(share),
                bar_width,
                bar_height,
                f"{length} tokens: {many} of {total} rounds ({share:.1f} %)",
            )
        )
    every = 1 if len(counts) <= 17 else 2 if len(counts) <= 34 else 8
    for length in counts:
        if (length - first) % every == 0:
            parts.append(
                Markup('<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>').format(
                    x_of(length), height - _BOTTOM + 16, length
                )
            )
    parts.append(
        Markup('<text class="axis" x="{:.1f}" y="{:.1f}" text-anchor="middle">tokens per verify round</text>').format(
            _LEFT + plot_w / 2, height - 8
        )
    )
    if average is not None and first - 0.5 <= average <= max(counts) + 0.5:
        where = x_of(average)
        side = "end" if where > _LEFT + plot_w * 0.7 else "start"
        parts.append(
            Markup(
                '<line class="mean" x1="{x:.1f}" x2="{x:.1f}" y1="{:.1f}" y2="{:.1f}"/>'
                '<text class="meanlabel" x="{:.1f}" y="{:.1f}" text-anchor="{}">mean {}</text>'
            ).format(
                _TOP - 14,
                _TOP + plot_h,
                where + (-6 if side == "end" else 6),
                _TOP - 6,
                side,
                f"{average:.2f}",
                x=where,
            )
        )
    parts.append(Markup("</svg>"))
    return Markup("").join(parts)


def describe_histogram(counts: Mapping[int, int], average: float | None) -> str:
    """Say the picture in words, for screen readers."""
    total = sum(counts.values())
    mode = max(counts, key=lambda length: counts[length])
    words = f"Acceptance histogram over {total} verify rounds; most often {mode} tokens a round"
    return words + (f", mean {average:.2f}" if average is not None else "")
