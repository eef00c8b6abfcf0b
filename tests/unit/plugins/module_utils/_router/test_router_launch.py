# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launcher of the router: what it reads from the unit, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import pathlib

import pytest

_PATH = pathlib.Path(__file__).resolve().parents[5] / "roles/router/files/launcher/src/dflash_router/launch.py"
_SPEC = importlib.util.spec_from_file_location("dflash_router_launch", _PATH)
launch = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(launch)

KNOWN = ["host", "port", "api_key", "worker_urls"]


@pytest.fixture()
def environ(tmp_path):
    path = tmp_path / "workers.json"
    path.write_text(json.dumps(["http://192.0.2.1:30000"]))
    return {"DFLASH_ROUTER_SETTINGS": '{"port": 30080}', "DFLASH_ROUTER_WORKERS": str(path)}


def test_settings_and_workers(environ):
    assert launch.read_settings(environ, KNOWN) == {"port": 30080, "worker_urls": ["http://192.0.2.1:30000"]}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('{"api_key": "x"}', "keys come as a credential"),
        ('{"worker_urls": []}', "workers from their file"),
        ('{"no_such": 1}', "no_such is unknown"),
        ("[]", "JSON object"),
        ("{", "cannot be read"),
    ],
)
def test_refused(environ, settings, words):
    with pytest.raises(launch.SettingsError, match=words):
        launch.read_settings({**environ, "DFLASH_ROUTER_SETTINGS": settings}, KNOWN)


def test_without_a_unit(environ):
    with pytest.raises(launch.SettingsError, match="by its unit"):
        launch.read_settings({}, KNOWN)


def test_the_key_is_a_credential(tmp_path):
    assert launch.read_key({}) is None
    (tmp_path / "api_key").write_text("secret\n")
    assert launch.read_key({"CREDENTIALS_DIRECTORY": str(tmp_path)}) == "secret"


@pytest.mark.parametrize("text", [None, "\n"])
def test_a_key_that_is_missing_or_empty_opens_nothing(tmp_path, text):
    if text is not None:
        (tmp_path / "api_key").write_text(text)
    with pytest.raises(launch.SettingsError, match="cannot be read" if text is None else "is empty"):
        launch.read_key({"CREDENTIALS_DIRECTORY": str(tmp_path)})
