# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import shlex

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._instance import launch, systemd_text

CPU = {"name": "main", "engine_backend": "transformers", "algorithm": "ddtree", "port": 8000, "gpus": [], "budget": 16}
GPU = {
    "name": "big",
    "engine_backend": "sglang",
    "algorithm": "ddtree",
    "port": 30000,
    "gpus": ["GPU-1", "GPU-2"],
    "tp_size": 2,
    "budget": 32,
    "block_size": 16,
    "mem_fraction": 0.8,
}


def test_transformers_tree():
    words = launch.argv(CPU, "/m/target", "/m/drafter")
    assert words[0] == "/var/lib/dflash/instances/main/release/venv/bin/python"
    assert shlex.join(words[1:]) == (
        "-m ddtree.server --model /m/target --algorithm ddtree --drafter /m/drafter --budget 16 --device cpu "
        "--host 0.0.0.0 --port 8000 --served-model-name main"
    )


def test_transformers_plain_has_no_drafter():
    words = launch.argv({**CPU, "algorithm": "none"}, "/m/target", "/m/drafter")
    assert "--drafter" not in words and "--budget" not in words


def test_sglang_tree():
    words = launch.argv(GPU, "/m/target", "/m/drafter", python="python3")
    assert shlex.join(words) == (
        "python3 -m ddtree.sglang.launch --model-path /m/target --speculative-algorithm DDTREE --speculative-draft-model-path /m/drafter "
        "--speculative-dflash-block-size 16 --speculative-ddtree-budget 32 --tp-size 2 --mem-fraction-static 0.8 --enable-metrics "
        "--host 0.0.0.0 --port 30000 --served-model-name big"
    )


def test_args_as_mapping_and_as_words():
    mapping = {
        "attention_backend": "triton",
        "disable_radix_cache": True,
        "skip": False,
        "nothing": None,
        "cuda-graph-bs": [1, 2],
    }
    assert launch.argv({**CPU, "args": mapping}, "/m", "/d")[-6:] == [
        "--attention-backend",
        "triton",
        "--disable-radix-cache",
        "--cuda-graph-bs",
        "1",
        "2",
    ]
    assert launch.argv({**CPU, "args": ["--seed", 3]}, "/m", "/d")[-2:] == ["--seed", "3"]


@pytest.mark.parametrize(
    ("change", "drafter", "text"),
    [
        ({"engine_backend": "vllm"}, "/d", "engine_backend 'vllm' is not known; use one of: sglang, transformers"),
        ({"algorithm": "eagle"}, "/d", "algorithm 'eagle' is not known; use one of: ddtree, dflash, none"),
        ({}, None, "needs a drafter"),
        ({"args": "--seed 3"}, "/d", "must be a list of words or a mapping"),
    ],
)
def test_refusals_name_the_value(change, drafter, text):
    with pytest.raises(launch.LaunchError, match=text):
        launch.argv({**CPU, **change}, "/m", drafter)


def test_environment_names_gpus_by_uuid_and_lets_the_instance_override():
    values = launch.environment(
        {**GPU, "env": {"CUDA_VISIBLE_DEVICES": "stale", "NCCL_P2P_DISABLE": 1, "HF_HUB_OFFLINE": False}}
    )
    assert values["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    assert values["NCCL_P2P_DISABLE"] == "1"
    assert values["HF_HUB_OFFLINE"] == "false"
    assert values["LD_LIBRARY_PATH"] == ""


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("--port", "--port"),
        ("/a/b.c", "/a/b.c"),
        ("", '""'),
        ("two words", '"two words"'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ('say "x"', '"say \\"x\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("it's", '"it\'s"'),
        ("a;b", '"a;b"'),
    ],
)
def test_unit_words_are_quoted(word, quoted):
    assert systemd_text.quote_word(word) == quoted


def test_unit_words_refuse_line_breaks():
    with pytest.raises(ValueError, match="control characters"):
        systemd_text.quote_word("a\nb")


def test_environment_file():
    assert systemd_text.environment_file({"B": 'a "q" $x', "A": "1"}) == 'A="1"\nB="a \\"q\\" \\$x"\n'
    with pytest.raises(ValueError, match="'1A' is not valid"):
        systemd_text.environment_file({"1A": "x"})
    with pytest.raises(ValueError, match="line breaks"):
        systemd_text.environment_file({"A": "x\ny"})
