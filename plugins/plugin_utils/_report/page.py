# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report document as one self-contained HTML page.

Templates and style sheet lie with the role (roles/report/files). Everything that comes from a host is escaped:
journal lines and model output are untrusted text.
"""

from __future__ import annotations

import base64
import typing as t
from pathlib import Path
from urllib.parse import urlsplit

from ansible_collections.inferlab.dflash.plugins.plugin_utils._report import charts, views
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report.document import KINDS, ReportError
from jinja2 import ChainableUndefined, Environment, FileSystemLoader
from markupsafe import Markup

_FILES = Path(__file__).resolve().parents[3] / "roles" / "report" / "files"

_TONES = {
    "good": ("serving", "ok", "ready", "healthy", "free", "unchanged", "passed", "no_fault"),
    "warn": ("degraded", "ready_after", "module_only", "library_only", "unknown", "slow", "warning", "repairable"),
    "bad": ("failed", "refused", "unreachable", "not_ready", "mismatch", "critical", "rolled_back", "error"),
}


def tone(state: t.Any) -> str:
    """Return good, warn, bad or plain for a state, severity or verdict word."""
    word = str(state or "").lower().replace(" ", "_").replace("-", "_")
    for name, words in _TONES.items():
        if word in words:
            return name
    return "plain"


def words(value: t.Any) -> str:
    """Return an identifier as words: `ready_after` becomes `ready after`."""
    return str(value or "").replace("_", " ")


def web_link(value: t.Any) -> Markup:
    """Return an http(s) address as a link, anything else as plain text: never a script or data address."""
    text = str(value or "")
    if urlsplit(text).scheme in ("http", "https"):
        return Markup('<a href="{0}">{0}</a>').format(text)
    return Markup("{}").format(text)


def number(value: t.Any, digits: int = 2) -> str:
    """Return a number for reading, or a dash where it is not known."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "–"
    return f"{value:,.{digits}f}".replace(",", "\u202f")


def gib(mib: t.Any) -> str:
    """Return MiB for reading, as GiB from one GiB on; a dash where it is not known."""
    if isinstance(mib, bool) or not isinstance(mib, (int, float)):
        return "–"
    if mib < 1024:
        return f"{mib:.0f} MiB"
    return f"{mib / 1024:.1f} GiB" if mib < 1024 * 100 else f"{mib / 1024:.0f} GiB"


def byte_limit(value: t.Any) -> str:
    """Return a limit in bytes, as the kernel prints it, in MiB; "unlimited" stays."""
    text = str(value)
    return f"{int(text) // (1024 * 1024)} MiB" if text.isdigit() else text


def figure_source(figure: t.Mapping[str, t.Any], variant: str = "") -> str:
    """Return a figure's picture as a data address, from `svg` (text) or `png` (base64).

    SVG goes through an img element too: a browser runs no script and loads nothing in there.
    """
    svg, png = figure.get(f"svg{variant}"), figure.get(f"png{variant}")
    if svg:
        return "data:image/svg+xml;base64," + base64.b64encode(str(svg).encode()).decode()
    if png:
        return f"data:image/png;base64,{png}"
    return ""


def environment() -> Environment:
    """Return the template environment of all reports."""
    env = Environment(
        loader=FileSystemLoader(_FILES),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        tone=tone,
        words=words,
        web_link=web_link,
        number=number,
        gib=gib,
        byte_limit=byte_limit,
        figure_source=figure_source,
    )
    env.globals.update(histogram_svg=charts.histogram_svg)
    return env


def render_page(document: t.Mapping[str, t.Any]) -> str:
    """Render a report.

    Raises:
        ReportError: the document's kind is not known.
    """
    kind = document.get("kind")
    if kind not in KINDS:
        raise ReportError(f"a report of kind {kind!r} cannot be rendered; kinds are {', '.join(KINDS)}")
    env = environment()
    style = (_FILES / "page.css").read_text(encoding="utf-8")
    return env.get_template(f"{kind}.html.j2").render(
        report=document, view=views.view_of(document), style=Markup(style)
    )
