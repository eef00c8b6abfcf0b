# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._models import reference


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv/models/Qwen3.6-27B/", ("path", "Qwen3.6-27B", "/srv/models/Qwen3.6-27B", None, None)),
        ("builtin:nano-target", ("builtin", "nano-target", "nano-target", None, None)),
        ("control:/srv/my model", ("control", "my-model", "/srv/my model", None, None)),
        ("host:gpu1:/data/m", ("host", "m", "/data/m", "gpu1", None)),
        (
            "hub:z-lab/Qwen3-DFlash@0123456789abcdef",
            ("hub", "z-lab--Qwen3-DFlash-0123456789ab", "z-lab/Qwen3-DFlash", None, "0123456789abcdef"),
        ),
    ],
)
def test_forms(text, expected):
    assert tuple(reference.parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "missing or empty"),
        (None, "missing or empty"),
        ("somewhere/else", "is not understood"),
        ("builtin:huge", "there is no builtin 'huge'; there are: nano-target, nano-drafter"),
        ("control:relative", "must be absolute"),
        ("/a/../b", "without '..'"),
        ("host:/data", "write host:NAME:/PATH"),
        ("hub:z-lab/Qwen3-DFlash", "pin a revision"),
        ("hub:nothing@1", "is not a repository name"),
        ("s3:bucket/x", "the form 's3' is not known"),
    ],
)
def test_refusals_name_value_and_way_out(text, reason):
    with pytest.raises(reference.ReferenceError, match=reason.replace("(", r"\(")):
        reference.parse(text)
