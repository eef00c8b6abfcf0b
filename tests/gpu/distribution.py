# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkout's ddtree package as an installed distribution, so that SGLang finds the plugin's entry point."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "roles/engine/files/ddtree/src"
"""What belongs on the path beside the folder given to `write_metadata`."""


def write_metadata(folder: Path, further_entry_points: str = "") -> None:
    """Metadata with the plugin's entry point into ``folder``; there already is fine."""
    info = folder / "inferlab_ddtree-1.0.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: inferlab-ddtree\nVersion: 1.0.0\n")
    plugins = "[sglang.srt.plugins]\nddtree = ddtree.sglang.plugin:register\n"
    (info / "entry_points.txt").write_text(plugins + further_entry_points)
