# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Joins the sections' JSON files into one, judges the bars, draws the plot.

usage: ddtree_report.py --out docs/benchmarks/ddtree-h200.json [--plot FILE.svg] [--facts FACTS.json] SECTION.json ...

A section is named by its file (`lossless-dense.json`, or `lossless-dense.earlier.json` for the same section of other code or settings; `.second` and
`.third` at the end are repetitions, and the ratios of a speed section and its repetitions are also given as medians over them).
A section given again replaces what --out already holds, so that runs of several days add up.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any


def speed_figures(label: str, section: dict[str, Any]) -> dict[str, Any]:
    """Ratios to DFLASH: by domain at batch 1, and by batch size. DFLASH ran first and, if there was time, last: its better run counts."""
    figures: dict[str, Any] = {}
    table = section["table"]

    def base(rows: dict[str, Any], key: str) -> dict[str, Any] | None:
        runs = [rows[f"{name}/{key}"] for name in ("dflash", "dflash-again") if f"{name}/{key}" in rows]
        return max(runs, key=lambda row: row["tokens_per_second"], default=None)

    for domain in ("code", "prose", "math"):
        chain = base(table, f"{domain}/batch1")
        for name in dict.fromkeys(key.split("/")[0] for key in table if key.startswith("tree")):
            row = table.get(f"{name}/{domain}/batch1")
            if not chain or not row:
                continue
            round_ratio = row["milliseconds_per_round"] / chain["milliseconds_per_round"]
            figures[f"3/4 {label}, {name}, {domain}, batch 1"] = {
                "round_time_ratio": round(round_ratio, 3),
                "tokens_per_second_ratio": round(row["tokens_per_second"] / chain["tokens_per_second"], 3),
                "holds": (round_ratio <= 1.10 if name == "tree16" else None),
            }
    sizes, rows = section["by_batch"]["sizes"], section["by_batch"]["table"]
    for name in [n for n in dict.fromkeys(k.split("/")[0] for k in rows) if n.startswith("tree")]:
        figures[f"6 {label}, {name} over DFLASH by batch size"] = {
            str(s): round(rows[f"{name}/{s}"]["tokens_per_second"] / base(rows, str(s))["tokens_per_second"], 3)
            for s in sizes
            if f"{name}/{s}" in rows and base(rows, str(s))
        }
    return figures


def over_repetitions(sections: dict[str, Any]) -> dict[str, Any]:
    """Medians, least and largest of the speed sections' ratios over the repetitions of each: every engine and batch size by itself."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for label, section in sections.items():
        if label.startswith("speed-"):
            base = re.sub(r"\.(second|third)$", "", label)
            groups[base].append({name.replace(label, base): f for name, f in speed_figures(label, section).items()})
    figures: dict[str, Any] = {}
    for base, runs in groups.items():
        for name in dict.fromkeys(name for run in runs for name in run) if len(runs) > 1 else ():
            mine = [run[name] for run in runs if name in run]
            found = {
                key: [figure[key] for figure in mine if figure.get(key) is not None]
                for key in dict.fromkeys(key for figure in mine for key in figure if key != "holds")
            }
            repeated = {
                key: {"median": round(statistics.median(v), 3), "least": min(v), "largest": max(v), "runs": len(v)}
                for key, v in found.items()
                if len(v) > 1
            }
            if repeated:
                figures[f"{name}, over {base}'s repetitions"] = repeated
    return figures


def judge(sections: dict[str, Any]) -> dict[str, Any]:
    """The figures by number, each with what was found and whether the bar holds (null: not measured)."""
    figures: dict[str, Any] = {}
    for pair in ("dense", "hybrid"):
        for label, section in sections.items():
            if not label.startswith(f"lossless-{pair}"):
                continue
            for dtype, runs in section.get("runs", {}).items():
                gap = {
                    name: max(entry[base]["largest_gap"] for base in entry if base.startswith("against_"))
                    for name, entry in runs.items()
                    if "/" in name
                }
                limit = max((g for n, g in gap.items() if n.startswith("dflash")), default=None)
                trees = max((g for n, g in gap.items() if n.startswith("tree")), default=None)
                if limit is None or trees is None:
                    continue
                figures[f"1 lossless, {label}, {dtype}"] = {
                    "largest_gap_of_dflash": limit,
                    "largest_gap_of_ddtree": trees,
                    "holds": trees <= limit + 1e-6,
                }
                chain = runs.get("chain/each")
                if chain:
                    figures[f"1 width 1 equals DFLASH, {label}, {dtype}"] = {
                        "equal_texts": chain["against_dflash"]["equal"],
                        "equal_rounds": chain["rounds_equal_dflash"],
                        "of": section["prompts"],
                        "holds": chain["against_dflash"]["equal"] == chain["rounds_equal_dflash"] == section["prompts"],
                    }
    for label, section in sections.items():
        if label.startswith("acceptance-") and "same_logits" in section:
            same, reference = section["same_logits"], section.get("reference_float32", {})
            figures[f"2 agreement, {label}"] = {
                "equal_without_near_ties": same["equal_without_near_ties"],
                "rounds_without_near_ties": same["rounds_without_near_ties"],
                "mean_accepted": reference.get("mean_accepted_sglang"),
                "mean_accepted_of_reference": reference.get("mean_accepted_reference"),
                "holds": same["equal_without_near_ties"] >= 0.99 * same["rounds_without_near_ties"]
                and abs(reference.get("mean_accepted_sglang", 9) - reference.get("mean_accepted_reference", 0)) <= 0.05,
            }
        if label.startswith("builder-"):
            build = section["microseconds"]["build/budget64/batch1"]
            figures["3 tree build, budget 64, batch 1 [us]"] = {"found": build, "bar": 60, "holds": build <= 60}
        if label.startswith("speed-"):
            figures.update(speed_figures(label, section))
        if label.startswith(("features-", "tensor_parallel-")):
            held = {name: entry["holds"] for name, entry in section["results"].items()}
            figures[label] = {
                "held": sum(held.values()),
                "missed": [n for n, h in held.items() if not h],
                "of": len(held),
            }
        if label.startswith("stages-"):
            found = {name: run.get("synchronisations") for name, run in section["no_sync"].items()}
            rounds = sum(run.get("rounds", 0) for run in section["no_sync"].values())
            figures[f"no host synchronisation, {label}"] = {
                **found,
                "rounds": rounds,
                "holds": set(found.values()) == {0},
            }
        if label.startswith("real_"):
            table = section["table"]
            figures[f"5 milliseconds a round, {label}"] = {
                name: round(row["milliseconds_per_round"], 2)
                for name, row in table.items()
                if "milliseconds_per_round" in row
            }
    return {**figures, **over_repetitions(sections)}


def draw(sections: dict[str, Any], path: Path) -> None:
    """Tokens a second of the speed sections, milliseconds a round of real-size layers, and kernel times."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    speed = {k: v for k, v in sections.items() if k.startswith("speed-")}
    real = {k: v for k, v in sections.items() if k.startswith("real_")}
    builder = next((v for k, v in sections.items() if k.startswith("builder-")), None)
    panels = 2 * len(speed) + len(real) + bool(builder)
    columns = min(3, panels)
    figure, grid = plt.subplots(-(-panels // columns), columns, figsize=(5.2 * columns, 3.9 * -(-panels // columns)))
    axes = list(grid.flat)
    for axis in axes[panels:]:
        axis.remove()
    axes = axes[:panels]
    for axis, (label, section) in zip(axes, speed.items()):
        table = section["table"]
        names = list(dict.fromkeys(k.split("/")[0] for k in table))
        for i, domain in enumerate(("code", "prose")):
            values = [table.get(f"{n}/{domain}/batch1", {}).get("tokens_per_second", 0) for n in names]
            axis.bar([j + 0.4 * (i - 0.5) for j in range(len(names))], values, 0.38, label=domain)
        axis.set_xticks(range(len(names)), names, rotation=30)
        axis.set_ylabel("tokens a second, batch 1")
        axis.set_title(label)
        axis.legend()
    for axis, (label, section) in zip(axes[len(speed) :], speed.items()):
        sizes, rows = section["by_batch"]["sizes"], section["by_batch"]["table"]
        for name in dict.fromkeys(k.split("/")[0] for k in rows):
            values = [rows[f"{name}/{s}"]["tokens_per_second"] for s in sizes if f"{name}/{s}" in rows]
            axis.plot(sizes[: len(values)], values, marker="o", label=name)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(sizes, [str(s) for s in sizes])
        axis.set_xlabel("requests at once")
        axis.set_ylabel("tokens a second")
        axis.set_title(label)
        axis.legend(fontsize="small")
    for axis, (label, section) in zip(axes[2 * len(speed) :], real.items()):
        table = section["table"]
        names = list(dict.fromkeys(k.split("/")[0] for k in table))
        for i, size in enumerate((1, 4, 16)):
            values = [table.get(f"{n}/batch{size}", {}).get("milliseconds_per_round", 0) for n in names]
            axis.bar([j + 0.27 * (i - 1) for j in range(len(names))], values, 0.25, label=f"batch {size}")
        axis.set_xticks(range(len(names)), names, rotation=30)
        axis.set_ylabel("milliseconds a round, dummy weights")
        axis.set_title(f"{section['model']}: {label}")
        axis.legend()
    if builder:
        axis, times = axes[-1], builder["microseconds"]
        budgets = (16, 32, 64, 127)
        for kernel in ("build", "prepare", "walk"):
            axis.plot(budgets, [times[f"{kernel}/budget{b}/batch1"] for b in budgets], marker="o", label=kernel)
        axis.axhline(60, linestyle=":", color="grey")
        axis.set_xlabel("budget (nodes)")
        axis.set_ylabel("microseconds, batch 1")
        axis.set_title("kernels (bar of the build at 64: 60)")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--draw", default="", help="sections in the plot, comma-separated; all if not given")
    parser.add_argument("--facts", type=Path, help="JSON object merged at the top: machine, versions, not_run, notes")
    args = parser.parse_args()
    merged = json.loads(args.out.read_text()) if args.out.exists() else {"schema": 1, "sections": {}}
    if args.facts:
        merged.update(json.loads(args.facts.read_text()))
    for path in args.sections:
        merged["sections"][path.stem] = json.loads(path.read_text())
    merged["figures"] = judge(merged["sections"])
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(merged, indent=1, sort_keys=False) + "\n")
    if args.plot:
        chosen = args.draw.split(",") if args.draw else list(merged["sections"])
        draw({name: merged["sections"][name] for name in chosen}, args.plot)
    for name, figure in merged["figures"].items():
        print(name, json.dumps(figure))


if __name__ == "__main__":
    main()
