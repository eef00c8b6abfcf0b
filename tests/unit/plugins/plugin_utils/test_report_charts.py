# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The acceptance histogram as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report import charts

NS = "{http://www.w3.org/2000/svg}"


def parsed(svg):
    return ET.fromstring(str(svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


@pytest.mark.parametrize(
    ("value", "counts"),
    [
        ([3, 0, 2], {1: 3, 2: 0, 3: 2}),
        ([3, 1, 0, 0], {1: 3, 2: 1}),
        ({"2": 5, "4": 1}, {1: 0, 2: 5, 3: 0, 4: 1}),
        ({0: 2, 1: 1}, {0: 2, 1: 1}),
        ([], {}),
        ([0, 0], {}),
        (None, {}),
        ("12", {}),
        ([1, -1], {}),
        ({"long": 1}, {}),
    ],
)
def test_counts(value, counts):
    assert charts.histogram_counts(value) == counts


def test_bars_are_in_proportion_and_name_their_numbers():
    root = parsed(charts.histogram_svg([1, 3], 1.75))
    bars = root.findall(f"{NS}rect")
    heights = [float(column.get("height")) for column in bars]
    assert heights[1] == pytest.approx(3 * heights[0], rel=0.01)
    assert [column.find(f"{NS}title").text for column in bars] == [
        "1 tokens: 1 of 4 rounds (25.0 %)",
        "2 tokens: 3 of 4 rounds (75.0 %)",
    ]
    assert "mean 1.75" in "".join(root.itertext())
    assert "most often 2 tokens a round, mean 1.75" in root.get("aria-label")


def test_mean_is_worked_out_where_none_is_given():
    assert charts.histogram_mean({1: 1, 2: 3}) == 1.75
    assert "mean 1.75" in charts.histogram_svg([1, 3])


def test_everything_stays_inside_the_picture():
    root = parsed(charts.histogram_svg([100] + [0] * 14 + [1], 15.9))
    _x, _y, width, height = (float(part) for part in root.get("viewBox").split())
    for column in root.findall(f"{NS}rect"):
        assert float(column.get("x")) >= 0 and float(column.get("x")) + float(column.get("width")) <= width
        assert float(column.get("y")) >= 0 and float(column.get("y")) + float(column.get("height")) <= height


def test_long_histograms_label_fewer_bars():
    labels = [text for text in parsed(charts.histogram_svg([1] * 64)).itertext() if text.isdigit()]
    assert labels == ["1", "9", "17", "25", "33", "41", "49", "57"]


def test_no_data_draws_nothing():
    assert charts.histogram_svg([]) == ""


@pytest.mark.parametrize(("value", "top"), [(0.5, 2), (25.0, 30), (61, 80), (80, 80), (99, 100), (100, 100)])
def test_axis_top(value, top):
    assert charts.nice_ceiling(value) == top
