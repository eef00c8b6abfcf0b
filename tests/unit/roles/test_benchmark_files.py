# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of role benchmark: prompts, plots, dashboard, alerts and the scrape configuration."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jinja2
import pytest
import yaml
from ansible_collections.inferlab.dflash.plugins.filter import benchmark
from ansible_collections.inferlab.dflash.plugins.module_utils._tune import decide, summary
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._tune.tune_rows import rows

ROLE = Path(__file__).parents[3] / "roles" / "benchmark"
DASHBOARD = ROLE / "files" / "grafana" / "dflash.json"
RULES = ROLE / "files" / "dflash-rules.yml"


def test_prompts_are_paired_by_unique_ids_and_named_by_their_domain():
    for path in sorted((ROLE / "files" / "prompts").glob("*.jsonl")):
        entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert len(entries) >= 12 and {e["domain"] for e in entries} == {path.stem}
        assert len({e["id"] for e in entries}) == len({e["prompt"] for e in entries}) == len(entries)


def entry(**options):
    data = rows({"none": 100.0, "dflash": 150.0, "ddtree-16": 180.0, "ddtree-64": 170.0}, **options)
    verdict = decide.decide(data, (0, 1), "dflash", decide.Rule(latency_bound_ms=20.0))
    return summary.host_report("main", data, (0, 1), verdict, {})


def draw(tmp_path, data):
    done = subprocess.run(
        [sys.executable, str(ROLE / "files" / "plot.py"), f"--prefix={tmp_path}/deep/lab1"],
        input=json.dumps(data),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_plots_are_drawn_as_svg_and_png(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    got = draw(tmp_path, summary.figure_data(entry()))
    titles = [
        "Tokens a second",
        "Acceptance",
        "What a round costs and yields",
        "Latency",
        "Accepted tokens, round by round",
    ]
    assert [f["title"] for f in got["figures"]] == titles and got["reason"] == ""
    identifiers = []
    for figure in got["figures"]:
        for svg in (figure["svg"], figure["svg_dark"]):
            root = ElementTree.fromstring(svg)
            assert root.tag.endswith("svg")
            identifiers += [node.get("id") for node in root.iter() if node.get("id")]
            # Every reference inside a figure has its target in the same figure.
            own = {node.get("id") for node in root.iter()}
            assert set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg)) <= own
    assert len(set(identifiers)) == len(identifiers)
    names = ("throughput", "acceptance", "rounds", "latency", "histogram")
    for name in names:
        assert (tmp_path / "deep" / f"lab1-{name}.png").read_bytes().startswith(b"\x89PNG")
    text = got["figures"][0]["svg"]
    assert "tree 64" in text.replace("\n", " ") or "64" in text
    assert "chosen (tree 16)" in text


def test_plots_leave_out_what_was_not_measured(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    plain = rows({"none": 100.0}, concurrencies=(1,))
    verdict = decide.decide(plain, (0, 1), "none", decide.Rule())
    data = summary.figure_data(summary.host_report("main", plain, (0, 1), verdict, {}))
    assert [f["title"] for f in draw(tmp_path, data)["figures"]] == [
        "Tokens a second",
        "What a round costs and yields",
        "Latency",
    ]
    assert "nothing was measured" in draw(tmp_path, {**data, "cells": []})["reason"]


def test_no_matplotlib_is_no_failure(tmp_path):
    code = (
        "import sys, runpy; sys.modules['matplotlib'] = None;"
        f"sys.argv = ['plot.py', '--prefix={tmp_path}/x']; runpy.run_path({str(ROLE / 'files' / 'plot.py')!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input='{"cells": []}', capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"figures": [], "reason": json.loads(done.stdout)["reason"]}
    assert "matplotlib is not installed" in done.stdout


def expressions():
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [(p["title"], t["expr"]) for p in dashboard["panels"] for t in p.get("targets", ())]


def test_dashboard_has_what_grafana_needs():
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert dashboard["schemaVersion"] >= 36 and dashboard["uid"] and dashboard["title"]
    variables = {v["name"] for v in dashboard["templating"]["list"]}
    ids = [p["id"] for p in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["datasource"]["uid"] == "${datasource}" and panel["targets"]
        references = [t["refId"] for t in panel["targets"]]
        assert len(set(references)) == len(references)
        for target in panel["targets"]:
            assert set(re.findall(r"\$\{?(\w+)", target["expr"])) <= variables | {"__rate_interval"}


def exported_metrics():
    """Names that the engines export, from the package's own source, and SGLang's that the benchmark reads too."""
    source = ROLE.parent / "engine" / "files" / "ddtree" / "src" / "ddtree"
    text = "".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    return set(re.findall(r"\b(?:ddtree_[a-z_]+|sglang:[a-z_]+)\b", text))


def test_dashboard_and_alerts_ask_for_metrics_that_exist():
    known = exported_metrics()
    wanted = {m for dummy, e in expressions() for m in re.findall(r"\bddtree_[a-z_]+", e)}
    wanted |= set(re.findall(r"\bddtree_[a-z_]+", RULES.read_text(encoding="utf-8")))
    assert wanted and {re.sub(r"_(sum|count|bucket)$", "", name) for name in wanted} <= known


def scrape_file(tmp_path, targets, exporter=9400):
    environment = jinja2.Environment(keep_trailing_newline=True, trim_blocks=True)
    environment.filters |= {"comment": lambda text: f"# {text}", "to_json": json.dumps}
    environment.filters["unique"] = lambda items, attribute: list({i[attribute]: i for i in items}.values())
    template = environment.from_string((ROLE / "templates" / "prometheus.yml.j2").read_text(encoding="utf-8"))
    values = {"benchmark_targets": targets, "benchmark_gpu_exporter_port": exporter, "benchmark_scrape_seconds": 5}
    path = tmp_path / "prometheus.yml"
    path.write_text(template.render(ansible_managed="Ansible managed", **values), encoding="utf-8")
    shutil.copy(RULES, tmp_path / "dflash-rules.yml")
    return path


HERE = {
    "instances": [
        {"name": "main", "generation": "a", "port": 8000, "record": {"engine_backend": "sglang", "algorithm": "ddtree"}}
    ]
}
ROUTER = {
    "instances": [
        {"name": "router", "generation": "a", "port": 30080, "record": {}},
        {"name": "new", "generation": None},
    ]
}
HOSTVARS = {
    "a": {"ansible_host": "192.0.2.1", "dflash_here": HERE},
    "b": {"dflash_here": HERE},
    "c": {},
    "d": {"dflash_here": ROUTER},
}


def test_scrape_targets_are_the_deployed_instances(tmp_path):
    targets = benchmark.scrape_targets(["a", "b", "c", "d"], HOSTVARS)
    assert [(t["host"], t["address"], t["port"]) for t in targets] == [("a", "192.0.2.1", 8000), ("b", "b", 8000)]
    parsed = yaml.safe_load(scrape_file(tmp_path, targets).read_text(encoding="utf-8"))
    jobs = {job["job_name"]: job["static_configs"] for job in parsed["scrape_configs"]}
    assert [s["targets"] for s in jobs["dflash"]] == [["192.0.2.1:8000"], ["b:8000"]]
    assert jobs["dflash"][0]["labels"] == {"host": "a", "name": "main", "engine": "sglang", "algorithm": "ddtree"}
    assert [s["targets"] for s in jobs["dflash-gpu"]] == [["192.0.2.1:9400"], ["b:9400"]]
    alone = yaml.safe_load(scrape_file(tmp_path, targets, exporter=0).read_text(encoding="utf-8"))
    assert [job["job_name"] for job in alone["scrape_configs"]] == ["dflash"]


@pytest.fixture
def promtool():
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")

    def check(*arguments):
        done = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return check


def test_promtool_accepts_scrape_file_and_alerts(promtool, tmp_path):
    promtool("check", "config", scrape_file(tmp_path, benchmark.scrape_targets(["a", "b"], HOSTVARS)))
    promtool("check", "config", scrape_file(tmp_path, []))


def test_promtool_accepts_every_query_of_the_dashboard(promtool, tmp_path):
    queries = [
        {
            "record": f"query{i}",
            "expr": expr.replace("$__rate_interval", "5m").replace("$host", ".*").replace("$name", ".*"),
        }
        for i, (dummy, expr) in enumerate(expressions())
    ]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": queries}]}), encoding="utf-8")
    promtool("check", "rules", path)


def test_promtool_fires_the_alerts_when_it_must(promtool, tmp_path):
    shutil.copy(RULES, tmp_path / "dflash-rules.yml")
    labels = '{job="dflash", host="a", name="main"}'
    case = {
        "rule_files": ["dflash-rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": f"ddtree_accept_length_sum{labels}", "values": f"0+{step}x40"},
                    {"series": f"ddtree_accept_length_count{labels}", "values": "0+100x40"},
                ],
                "alert_rule_test": [
                    {"eval_time": "35m", "alertname": "DflashAcceptanceCollapsed", "exp_alerts": alerts}
                ],
            }
            for step, alerts in ((250, []), (101, [collapsed()]))
        ],
    }
    path = tmp_path / "case.yml"
    path.write_text(yaml.safe_dump(case), encoding="utf-8")
    promtool("test", "rules", path)


def collapsed():
    return {
        "exp_labels": {"host": "a", "name": "main", "severity": "warning"},
        "exp_annotations": {
            "summary": "a main drafts in vain: 1.01 tokens a verify round",
            "remedy": "Check that drafter and target are a pair (drafter_info); until then algorithm none is faster.",
        },
    }


def test_plot_script_imports_without_side_effects():
    spec = importlib.util.spec_from_file_location("dflash_plot", ROLE / "files" / "plot.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (
        module.compact('<?xml?>\n<svg><metadata>x</metadata><path d="M 1.23456"/></svg>')
        == '<svg><path d="M 1.23"/></svg>'
    )
