# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Tree shape, refusals and memory plan: each refusal names the value, the reason and a setting that works."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from ddtree.sglang import args as server_args
from ddtree.sglang import cli
from ddtree.sglang.config import (
    FORCE_SPINE_ENV,
    MAX_TREE_BATCH_ENV,
    ConfigError,
    options_from_environment,
    resolve,
)
from ddtree.sglang.weights import checkpoint_bytes, parameter_count

GIB = 2**30


def test_defaults() -> None:
    config = resolve(block_size=16, num_draft_tokens=None, topk=None)
    assert (config.rows, config.budget, config.topk, config.is_chain) == (17, 16, 16, False)
    assert resolve(block_size=32, num_draft_tokens=None, topk=None).budget == 31
    assert resolve(block_size=8, num_draft_tokens=9, topk=None).topk == 8
    assert resolve(block_size=16, num_draft_tokens=16, topk=1).is_chain


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_draft_tokens": 9, "topk": 4}, ["budget 8", "--speculative-ddtree-budget 15"]),
        ({"num_draft_tokens": 200, "topk": 4}, ["budget 199", "--speculative-ddtree-budget 127"]),
        ({"num_draft_tokens": 17, "topk": 1}, ["budget is 16", "--speculative-ddtree-budget 15"]),
        ({"num_draft_tokens": 17, "topk": 0}, ["width 0", "--speculative-ddtree-topk 16"]),
        ({"num_draft_tokens": 17, "topk": 4, "max_tree_batch": -1}, ["-1", "Use 0"]),
    ],
)
def test_impossible_shapes(options: dict, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        resolve(block_size=16, **options)
    assert all(word in str(error.value) for word in words)


def arguments(**changes: object) -> SimpleNamespace:
    base = {
        "device": "cuda",
        "speculative_draft_model_path": "/drafter",
        "page_size": 1,
        "enable_dp_attention": False,
        "pp_size": 1,
        "linear_attn_backend": "triton",
        "speculative_accept_threshold_single": 1.0,
        "speculative_accept_threshold_acc": 1.0,
        "disaggregation_mode": "null",
    }
    return SimpleNamespace(**{**base, **changes})


TRITON = ("triton", "triton")


def test_a_supported_server_is_not_refused() -> None:
    server_args.refuse_unsupported(arguments(), TRITON)


def test_a_release_adds_refusals_of_its_own() -> None:
    further = ((lambda value: value == "wide", "lane", "lanes are narrow. Use --lane narrow."),)
    server_args.refuse_unsupported(arguments(lane="narrow"), TRITON, further)
    with pytest.raises(ConfigError, match=r"--lane wide.*narrow"):
        server_args.refuse_unsupported(arguments(lane="wide"), TRITON, further)


@pytest.mark.parametrize(
    ("changes", "backends", "words"),
    [
        ({"device": "cpu"}, TRITON, ["--device cpu", "--device cuda"]),
        ({"speculative_draft_model_path": None}, TRITON, ["--speculative-draft-model-path"]),
        ({}, ("fa3", "fa3"), ["fa3", "--attention-backend triton"]),
        ({}, ("triton", "flashinfer"), ["flashinfer", "--attention-backend triton"]),
        ({"page_size": 64}, TRITON, ["--page-size 64", "--page-size 1"]),
        ({"enable_dp_attention": True}, TRITON, ["--enable-dp-attention", "tensor parallelism"]),
        ({"pp_size": 2}, TRITON, ["--pp-size 2", "--pp-size 1"]),
        ({"enable_deterministic_inference": True}, TRITON, ["deterministic", "DFLASH"]),
        ({"speculative_accept_threshold_acc": 0.9}, TRITON, ["0.9", "Use 1.0"]),
        ({"linear_attn_backend": "flashinfer"}, TRITON, ["flashinfer", "Use triton"]),
        ({"mamba_radix_cache_strategy": "extra_buffer_lazy"}, TRITON, ["extra_buffer_lazy", "Use extra_buffer"]),
        ({"disaggregation_mode": "decode"}, TRITON, ["decode", "Use null"]),
    ],
)
def test_refusals_name_reason_and_way_out(changes: dict, backends: tuple, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        server_args.refuse_unsupported(arguments(**changes), backends)
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize(
    "model",
    [
        SimpleNamespace(is_hybrid_swa=True, sliding_window_size=None, attention_arch=None),
        SimpleNamespace(is_hybrid_swa=False, sliding_window_size=4096, attention_arch=None),
        SimpleNamespace(is_hybrid_swa=False, sliding_window_size=None, attention_arch=SimpleNamespace(name="MLA")),
    ],
)
def test_targets_without_tree_attention(model: SimpleNamespace) -> None:
    with pytest.raises(ConfigError, match="DFLASH"):
        server_args.refuse_unsupported_target(model)


def test_recurrent_targets_are_gated_delta_nets() -> None:
    heads = {"linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_key_head_dim": 128}
    server_args.refuse_recurrent_target(None)
    server_args.refuse_recurrent_target(SimpleNamespace(**heads, linear_value_head_dim=128))
    with pytest.raises(ConfigError, match=r"Qwen3-Next.*got SimpleNamespace. Use --speculative-algorithm DFLASH"):
        server_args.refuse_recurrent_target(SimpleNamespace(**heads))


def namespace(**changes: object) -> argparse.Namespace:
    base = {
        "speculative_algorithm": "ddtree",
        "speculative_num_draft_tokens": None,
        "speculative_eagle_topk": None,
        "speculative_ddtree_budget": None,
        "speculative_ddtree_topk": None,
        "speculative_ddtree_force_spine": False,
        "speculative_ddtree_max_tree_batch": None,
    }
    return argparse.Namespace(**{**base, **changes})


def test_options_reach_server_args_and_environment() -> None:
    parser = argparse.ArgumentParser()
    cli.add_cli_args(None, parser)
    line = "--speculative-ddtree-budget 32 --speculative-ddtree-topk 8 --speculative-ddtree-force-spine"
    parsed = parser.parse_args(f"{line} --speculative-ddtree-max-tree-batch 0".split())
    args, environ = namespace(**vars(parsed)), {}
    cli.apply_options(args, environ)
    assert (args.speculative_num_draft_tokens, args.speculative_eagle_topk) == (33, 8)
    assert environ == {FORCE_SPINE_ENV: "1", MAX_TREE_BATCH_ENV: "0"}
    assert options_from_environment(environ) == (True, 0)
    assert options_from_environment({}) == (False, None)


def test_options_of_another_algorithm_are_refused() -> None:
    with pytest.raises(ConfigError, match="DFLASH"):
        cli.apply_options(namespace(speculative_algorithm="DFLASH", speculative_ddtree_budget=16), {})
    cli.apply_options(namespace(speculative_algorithm=None), {})


def test_conflicting_budget_is_refused() -> None:
    with pytest.raises(ConfigError, match="Give one of them"):
        cli.apply_options(namespace(speculative_ddtree_budget=16, speculative_num_draft_tokens=33), {})


def test_checkpoint_size(tmp_path: Path) -> None:
    config = {
        "hidden_size": 4096,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 12288,
        "vocab_size": 151936,
    }
    assert 8.0e9 < parameter_count(config) < 8.4e9  # Qwen3-8B has 8.19e9
    (tmp_path / "config.json").write_text(json.dumps({"text_config": config}))
    assert checkpoint_bytes(str(tmp_path)) == 2 * parameter_count(config)
    (tmp_path / "model.safetensors").write_bytes(b"x" * 1000)
    assert checkpoint_bytes(str(tmp_path)) == 1000
    assert checkpoint_bytes("some/hub-name") == 0
