# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Known releases of SGLang, what is said of each, and the comparison of names that guards the ones never run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest
from ddtree.sglang import api, hooks, launch, releases
from ddtree.sglang.config import ConfigError

MEASURED, CHECKED = releases.RELEASES["0.5.17"], releases.RELEASES["0.5.23"]


def test_a_release_that_was_never_run_says_so() -> None:
    assert releases.of_version("0.5.17", {}) is MEASURED
    assert MEASURED.note == ""
    assert releases.of_version("0.5.23", {}) is CHECKED
    assert CHECKED.note == ", SGLang 0.5.23: checked by import and unit tests, never run on a GPU"


def test_unknown_releases_are_refused() -> None:
    with pytest.raises(ConfigError) as error:
        releases.of_version("0.5.20", {})
    words = ("0.5.20", "sglang==0.5.17", "never run on a GPU", "DFLASH", "SGLANG_DDTREE_ANY_VERSION=1")
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(
    ("version", "like"),
    [("0.5.3", MEASURED), ("0.5.20", MEASURED), ("0.5.23.post1", CHECKED), ("0.6.0rc1", CHECKED)],
)
def test_an_unknown_release_is_tried_as_the_last_known_one_before_it(version: str, like: releases.Release) -> None:
    tried = releases.of_version(version, {"SGLANG_DDTREE_ANY_VERSION": "1"})
    assert type(tried) is type(like)
    assert tried.version == version
    assert version in tried.note


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("toy_sglang")

    @dataclass
    class Batch:
        lengths: int

        def __post_init__(self) -> None:
            self.total = 0

        def plan(self, slots: int, *, extent: int = 0) -> None: ...

    module.Batch = Batch
    monkeypatch.setitem(sys.modules, "toy_sglang", module)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (api.Name("toy_sglang:Batch"), []),
        (api.Name("toy_sglang:Batch.gone"), ["toy_sglang:Batch.gone is not there"]),
        (api.Name("toy_sglang_gone:Batch"), ["toy_sglang_gone:Batch is not there"]),
        (api.Call("toy_sglang:Batch.plan", "self slots extent"), []),
        (api.Call("toy_sglang:Batch.plan", "self slots"), []),
        (api.Call("toy_sglang:Batch.plan", "self slots pages"), ["toy_sglang:Batch.plan takes no parameter pages"]),
        (api.Call("toy_sglang:Batch.plan", "self extent"), ["toy_sglang:Batch.plan also needs parameter slots"]),
        (api.Override("toy_sglang:Batch.plan", "self slots extent more"), []),
        (
            api.Override("toy_sglang:Batch.plan", "self slots"),
            ["toy_sglang:Batch.plan may be called with extent, which the plugin does not take"],
        ),
        (api.Attributes("toy_sglang:Batch", "lengths total plan"), []),
        (api.Attributes("toy_sglang:Batch", "lengths sum"), ["toy_sglang:Batch has no sum"]),
    ],
)
@pytest.mark.usefixtures("toy")
def test_what_is_missing_is_named(entry: object, expected: list[str]) -> None:
    found = api.missing(CHECKED, [entry])
    assert len(found) == len(expected)
    assert all(text.startswith(start) for text, start in zip(found, expected))


def test_only_a_release_that_was_never_run_is_held_against_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "missing", lambda *_: ["toy:plan is not there"])
    api.refuse_missing(MEASURED)
    with pytest.raises(RuntimeError, match=r"0\.5\.23 .*never run.*toy:plan is not there.*DFLASH"):
        api.refuse_missing(CHECKED)


def test_a_scheduler_does_not_import_the_http_server(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(api, "missing", lambda _release, entries: seen.extend(e.path for e in entries) or [])
    api.refuse_missing(CHECKED)
    assert len(seen) > 60
    assert not [path for path in seen if "http_server" in path or "launch_server" in path]


def test_requests_that_dflash_serves_and_ddtree_does_not() -> None:
    plain = SimpleNamespace(return_logprob=False, return_sampling_mask=False)
    assert hooks.validate_request(lambda req, overlap: (req, overlap), plain, True) == (plain, True)
    for change in ("return_logprob", "return_sampling_mask"):
        req = SimpleNamespace(**{**vars(plain), change: True})
        assert change in hooks.validate_request(lambda *_: None, req, True)


def test_settings_of_one_release_are_refused_there() -> None:
    assert MEASURED.excluded == ()
    refused = {option for present, option, dummy in CHECKED.excluded if present(2)}
    assert refused == {"attn_dp_size", "attn_cp_size", "enable_watermark", "speculative_use_block_verification"}
    assert not [option for present, option, dummy in CHECKED.excluded if present(None) or present(False)]


def test_heads_beside_a_plain_dflash_drafter_are_refused() -> None:
    plain = {"selector": None, "lilicorr": None, "_is_domino": False}
    CHECKED.refuse_drafter(SimpleNamespace(**plain))
    for change in ({"selector": object()}, {"lilicorr": object()}, {"_is_domino": True}):
        with pytest.raises(RuntimeError, match="DFLASH"):
            CHECKED.refuse_drafter(SimpleNamespace(**{**plain, **change}))


def server(warm_up_seen: list) -> SimpleNamespace:
    """http_server as each release has it: the key is in the arguments, or in the process's serving settings."""
    module = SimpleNamespace(get_serving=lambda: SimpleNamespace(api_key=None, port=1))
    module._execute_server_warmup = lambda args: args.api_key

    def launch_server(_args: object, execute_warmup_func: object = None) -> None:
        if execute_warmup_func is not None:
            warm_up_seen.append(execute_warmup_func(SimpleNamespace(api_key=None, port=1)))
        else:
            warm_up_seen.append(module.get_serving().api_key)

    module.launch_server = launch_server
    return module


@pytest.mark.parametrize("release", [MEASURED, CHECKED], ids=lambda r: r.version)
def test_the_servers_own_requests_carry_the_key(release: releases.Release) -> None:
    seen: list = []
    release.launch_with_key(server(seen), SimpleNamespace(), "marked-key", launch.KeyedArgs)
    assert seen == ["marked-key"]


def test_a_server_beside_the_protected_one_is_refused() -> None:
    assert MEASURED.refuse_front_end({"SGLANG_RUST_SERVER": "1"}) is None  # not known there
    assert CHECKED.refuse_front_end({}) is None
    assert "SGLANG_RUST_SERVER" in CHECKED.refuse_front_end({"SGLANG_RUST_SERVER": "true"})


def test_switches_that_trees_do_not_serve_are_refused() -> None:
    name = "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING"
    MEASURED.refuse_environment({name: "1"})  # not known there
    CHECKED.refuse_environment({name: "false"})
    with pytest.raises(ConfigError, match=name):
        CHECKED.refuse_environment({name: "True"})
