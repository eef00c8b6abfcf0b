# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The launcher's secret: where it comes from, and that nothing which prints or copies arguments holds it."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
from ddtree.sglang import launch

KEY = "marked-key-7f3a"


@dataclasses.dataclass
class Arguments:
    model_path: str = "/m"
    api_key: str | None = None

    def url(self) -> str:
        return "http://127.0.0.1:1"


def test_a_key_that_the_unit_does_not_see_is_no_open_server(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert launch.main([]) == 2
    assert "open to everyone" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--api-key", KEY], [f"--api-key={KEY}"], ["--admin-api-key", KEY]])
def test_a_key_in_the_arguments_is_refused_without_being_shown(
    words: list[str], capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    assert launch.main(words) == 2
    printed = capsys.readouterr()
    assert KEY not in printed.out + printed.err
    assert "credential" in printed.err


def test_ddtree_gets_its_attention_backend() -> None:
    for words in (["--speculative-algorithm", "ddtree"], ["--speculative-algorithm=DDTREE"]):
        assert launch.prepare_argv(words)[-2:] == ["--attention-backend", "triton"]
    chosen = ["--speculative-algorithm", "DDTREE", "--attention-backend=fa3"]
    assert launch.prepare_argv(chosen) == chosen
    assert launch.prepare_argv(["--speculative-algorithm", "DFLASH"]) == ["--speculative-algorithm", "DFLASH"]


def test_only_the_protected_front_end_starts_with_a_key() -> None:
    launch.refuse_servers_without_middleware(SimpleNamespace(tokenizer_worker_num=1, grpc_port=None))
    for changes in ({"tokenizer_worker_num": 2}, {"grpc_port": 1234}, {"use_ray": True}, {"smg_grpc_mode": True}):
        with pytest.raises(launch.LaunchError):
            launch.refuse_servers_without_middleware(SimpleNamespace(**{"tokenizer_worker_num": 1, **changes}))


def test_arguments_never_hold_the_key() -> None:
    arguments = Arguments()
    keyed = launch.KeyedArgs(arguments, KEY)
    assert keyed.api_key == KEY
    assert keyed.url() == "http://127.0.0.1:1"
    assert KEY not in repr(keyed)
    for seen in (repr(arguments), str(dataclasses.asdict(arguments)), str(copy.deepcopy(arguments))):
        assert KEY not in seen
    assert KEY.encode() not in pickle.dumps(arguments)
