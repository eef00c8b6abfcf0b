# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages: self-contained, escaped, and complete for each kind."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from ansible_collections.inferlab.dflash.plugins.filter.survey_fleet import survey_fleet
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report import page, views
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report.document import KINDS, ReportError, build_document
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._survey import survey_story as story

HOSTS = {
    "lab1": {
        "state": "serving",
        "profile": "as wished",
        "address": "192.0.2.7",
        "instances": [
            {
                "name": "nano",
                "url": "http://192.0.2.7:30000",
                "algorithm": "ddtree",
                "budget": 16,
                "tokens_per_second": 1234.5,
                "acceptance_length": 2.5,
                "acceptance_histogram": [1, 0, 2],
                "completion": {"prompt": "1 + 1 =", "text": " <b>2</b>"},
                "gpus": ["GPU-1", {"uuid": "GPU-2"}],
                "release": "abc",
            }
        ],
        "driver": {"state": "healthy", "kernel_module_version": "580.126.09"},
        "changes": ["unit written"],
    },
    "ct200": {
        "state": "refused",
        "code": "wrong_machine",
        "diagnosis": {
            "code": "wrong_machine",
            "evidence": ["<script>x</script>"],
            "remedy": "a",
            "must_not": ["b", "c"],
        },
    },
    "gone": {"state": "unreachable"},
}
VOID = {"meta", "source", "img", "br", "link", "line", "rect", "path"}


class Outline(HTMLParser):
    """Collects tags and text, and fails on tags that don't nest."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(html)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        self.words.append(data.strip())


def render(hosts, kind="deploy", **extra):
    return page.render_page(build_document(hosts, kind=kind, now="2026-11-30T14:09:36Z", extra=extra)["document"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_renders_hosts_of_which_nothing_is_known(kind):
    outline = Outline(render({"a": {}}, kind))
    assert "a" in outline.words
    assert "2026-11-30 14:09:36 UTC" in outline.words


def test_the_page_loads_nothing_and_runs_nothing():
    outline = Outline(render(HOSTS, figures=[{"title": "F", "svg": "<svg/>", "png_dark": "AAAA"}]))
    assert not [tag for tag, _attrs in outline.tags if tag in ("script", "link", "iframe", "object")]
    sources = [attrs.get(key) for _tag, attrs in outline.tags for key in ("src", "srcset") if attrs.get(key)]
    assert sources == ["data:image/png;base64,AAAA", "data:image/svg+xml;base64,PHN2Zy8+"]
    assert not [key for _tag, attrs in outline.tags for key in attrs if key.startswith("on")]


def test_deploy_page_says_what_was_served():
    outline = Outline(render(HOSTS))
    for words in (
        "1\u202f234.5 tokens a second",
        "2.50 tokens a round",
        "GPU-1",
        "GPU-2",
        "wrong_machine",
        "unit written",
    ):
        assert words in outline.words, words
    assert ("a", {"href": "http://192.0.2.7:30000"}) in outline.tags
    assert [attrs["aria-label"] for tag, attrs in outline.tags if tag == "svg"] == [
        "Acceptance histogram over 3 verify rounds; most often 3 tokens a round, mean 2.50"
    ]


def test_attempts_say_how_each_ended():
    attempts = [
        {"instance": "main", "profile": "tp 2", "ready": False, "code": "nccl_unhandled_system_error", "seconds": 61.2},
        {"instance": "main", "profile": "tp 1", "ready": True, "code": None, "seconds": 12.0},
    ]
    outline = Outline(render({"a": {"state": "degraded", "attempts": attempts}}))
    assert "main tp 2: not ready after 61 s" in outline.words
    assert "nccl_unhandled_system_error" in outline.words
    assert "main tp 1: ready after 12 s" in outline.words


def test_text_of_hosts_is_escaped():
    html = render(HOSTS)
    assert "<script>x" not in html and "&lt;script&gt;x" in html
    assert " &lt;b&gt;2&lt;/b&gt;" in html


@pytest.mark.parametrize(
    ("url", "html"),
    [
        ("https://a/b?c=1&d", '<a href="https://a/b?c=1&amp;d">https://a/b?c=1&amp;d</a>'),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ('http://"><img>', '<a href="http://&#34;&gt;&lt;img&gt;">http://&#34;&gt;&lt;img&gt;</a>'),
        (None, ""),
    ],
)
def test_only_web_addresses_become_links(url, html):
    assert str(page.web_link(url)) == html


def test_benchmark_page_shows_tables_and_figures_of_a_host():
    hosts = {
        "gpu": {
            "tables": [
                {"title": "Sweep", "columns": ["Budget", "Rate"], "numeric": [1], "rows": [[16, 41.5], [32, None]]}
            ],
            "histograms": [{"title": "At 16", "counts": [1, 2], "mean": 1.6}],
            "figures": [{"title": "Rate", "png": "AAAA", "caption": "one run"}],
        }
    }
    outline = Outline(
        render(hosts, "benchmark", tiles=[{"label": "best budget", "value": 16}], summary=["Budget 16 wins."])
    )
    for words in ("Sweep", "41.5", "–", "At 16", "one run", "best budget", "Budget 16 wins."):
        assert words in outline.words, words


def test_diagnose_page_counts_faults():
    hosts = {"a": {"units": [{"unit": "x.service", "diagnosis": {"code": "port_in_use"}}, {"unit": "y.service"}]}}
    html = render(hosts, "diagnose")
    assert '<div class="tile bad"><b>1</b><span>faults</span></div>' in html


def test_unknown_kind_is_refused():
    with pytest.raises(ReportError, match="kind 'x' cannot be rendered"):
        page.render_page({"kind": "x"})


@pytest.mark.parametrize(
    ("state", "tone"),
    [("ready after", "warn"), ("Not ready", "bad"), ("serving", "good"), (None, "plain"), ("new", "plain")],
)
def test_tones(state, tone):
    assert page.tone(state) == tone


@pytest.mark.parametrize(
    ("mib", "text"), [(49140, "48.0 GiB"), (131072, "128 GiB"), (62, "62 MiB"), (None, "–"), (True, "–")]
)
def test_memory(mib, text):
    assert page.gib(mib) == text


@pytest.mark.parametrize(("limit", "text"), [("8388608", "8 MiB"), ("unlimited", "unlimited")])
def test_byte_limits(limit, text):
    assert page.byte_limit(limit) == text


def survey_page():
    hostvars = story.hostvars()
    fleet = survey_fleet(hostvars, list(hostvars))
    extra = {
        "findings": fleet["findings"],
        "changes": [{"host": "ct129", "what": "driver", "before": "healthy", "after": "mismatch"}],
        "since": "2026-11-29T08:00:00Z",
    }
    return Outline(render(fleet["hosts"], "survey", **extra))


def test_survey_page_shows_findings_verdicts_and_changes():
    outline = survey_page()
    for words in (
        "wrong_machine",
        "ready after",
        "not ready",
        "unreachable",
        "Changes since 2026-11-29 08:00:00 UTC",
        "→ mismatch",
    ):
        assert words in outline.words, words
    assert ("a", {"href": "#host-2"}) in outline.tags
    assert [attrs["id"] for tag, attrs in outline.tags if tag == "section"] == [f"host-{n}" for n in range(1, 7)]


def test_survey_page_draws_each_physical_gpu_once():
    meters = [attrs["aria-label"] for tag, attrs in survey_page().tags if attrs.get("class") == "meter"]
    assert len(meters) == 12
    assert meters[0].startswith("GPU 0 RTX A6000: 29.3 of 48 GiB in use, pid 9001")
    assert meters[1] == "GPU 1 RTX A6000: 0.0 of 48 GiB in use, free"


GPU = {
    "index": 0,
    "name": "NVIDIA RTX A6000",
    "memory_total_mib": 1000,
    "memory_used_mib": 600,
    "free": False,
    "reasons": [],
}


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"holders": [{"memory_mib": 400, "own": False}]}, [("used", "40.00"), ("unseen", "20.00")]),
        ({"holders": [{"memory_mib": 400, "own": True}, {"memory_mib": 200}]}, [("own", "40.00"), ("used", "20.00")]),
        ({"holders": [{"memory_mib": None, "own": True}], "own": True}, [("own", "60.00")]),
        ({"holders": [{"memory_mib": 5000}]}, [("used", "60.00")]),
        ({"memory_used_mib": None}, []),
        ({"dead": True}, [("dead", "100")]),
        ({"memory_used_mib": 4, "free": True}, [("used", "0.40")]),
    ],
)
def test_a_bar_is_what_its_holders_use(changes, parts):
    drawn = views.gpu_bar({**GPU, **changes})
    assert [(part["kind"], part["percent"]) for part in drawn["parts"]] == parts


@pytest.mark.parametrize(
    ("model", "remarks"),
    [
        ({"quantization": "fp8", "copy_of": "/d/q"}, "fp8; copy of /d/q"),
        ({"missing_files": ["a"]}, "1 files missing"),
        ({"pairs": [{"target": "/a", "ok": True}, {"target": "/b", "ok": False}]}, "pair with /a"),
        ({"pairs": [{"target": "/b", "ok": False}]}, "pair with no target here"),
        ({}, ""),
    ],
)
def test_remarks_on_models(model, remarks):
    assert views.model_remarks(model) == remarks
