# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wishes: coerced, completed, or refused with value, reason and way out."""

from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.errors import PlanError
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.wishes import normalise

PAIR = {"model": "/srv/target", "drafter": "/srv/drafter"}


def test_flat_options_of_a_survey_are_strings():
    flat = {
        "dflash_model": " /srv/target ",
        "dflash_drafter": "/srv/drafter",
        "dflash_algorithm": "DDTree",
        "dflash_budget": "32",
        "dflash_tp_size": "2",
        "dflash_port": "30001",
    }
    (instance,) = normalise([], flat)
    assert instance["model"] == "/srv/target"
    assert (instance["algorithm"], instance["budget"], instance["tp_size"], instance["port"]) == (
        "ddtree",
        32,
        2,
        30001,
    )
    assert instance["name"] == "main"
    assert instance["gpus"] == "auto"


def test_empty_survey_answers_count_as_not_given():
    (instance,) = normalise(
        None, {"dflash_model": "m", "dflash_drafter": "", "dflash_budget": None, "dflash_port": " "}
    )
    assert (instance["drafter"], instance["budget"], instance["port"], instance["algorithm"]) == (
        None,
        16,
        "auto",
        "none",
    )


def test_nothing_wished_for_is_an_empty_list():
    assert normalise([], {}) == []
    assert normalise("", None) == []


def test_a_drafter_makes_ddtree_the_default():
    assert normalise([dict(PAIR)])[0]["algorithm"] == "ddtree"


def test_listed_gpus_set_tp_size():
    assert normalise([{**PAIR, "gpus": ["GPU-aaaa", "GPU-bbbb"]}])[0]["tp_size"] == 2
    assert normalise([{**PAIR, "gpus": "GPU-aaaa, GPU-bbbb"}])[0]["gpus"] == ["GPU-aaaa", "GPU-bbbb"]


def test_profiles_get_a_name_and_are_kept_in_order():
    ladder = [{"tp_size": "1"}, {"tp_size": 1, "algorithm": "dflash"}, {"algorithm": "none", "profile": "plain"}]
    (instance,) = normalise([{**PAIR, "tp_size": 2, "profiles": ladder}])
    assert [p["profile"] for p in instance["profiles"]] == ["tp1", "dflash-tp1", "plain"]
    assert instance["profiles"][0]["tp_size"] == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**PAIR, "algoritm": "ddtree"}, ["algoritm", "unknown", "Did you mean algorithm"]),
        ({**PAIR, "algorithm": "eagle"}, ["algorithm = 'eagle'", "unknown", "ddtree, dflash, none"]),
        ({**PAIR, "tp_size": "two"}, ["tp_size = 'two'", "not a whole number", "from 1 to 64"]),
        ({**PAIR, "tp_size": True}, ["tp_size = True", "not a whole number"]),
        ({**PAIR, "tp_size": 0}, ["tp_size = 0", "out of range"]),
        ({**PAIR, "budget": 2.5}, ["budget = 2.5", "not a whole number"]),
        ({**PAIR, "port": 80}, ["port = 80", "out of range", "1024 to 65535"]),
        ({**PAIR, "mem_fraction": 1.5}, ["mem_fraction = 1.5", "share of GPU memory"]),
        ({**PAIR, "name": "Main Instance"}, ["name = 'Main Instance'", "systemd unit"]),
        ({**PAIR, "name": "router"}, ["role router"]),
        ({**PAIR, "gpus": [0]}, ["gpus = 0", "UUID only", "nvidia-smi -L"]),
        ({**PAIR, "gpus": ["GPU-aaaa", "GPU-aaaa"]}, ["listed twice"]),
        ({**PAIR, "gpus": ["GPU-aaaa"], "tp_size": 2}, ["1 GPUs are listed and tp_size is 2"]),
        ({**PAIR, "args": "--a 1"}, ["args = '--a 1'", "one argument an element"]),
        ({**PAIR, "env": ["A=1"]}, ["env", "mapping"]),
        ({**PAIR, "env": {"A": True}}, ["env.A = True", "Quote it"]),
        ({**PAIR, "env": {"A-B": "1"}}, ["no name of an environment variable"]),
        ({**PAIR, "env": {"CUDA_VISIBLE_DEVICES": "0"}}, ["planned, not set by hand"]),
        ({**PAIR, "model": "a\nb"}, ["line break"]),
        ({**PAIR, "model": 7}, ["model = 7", "type int"]),
        ({"drafter": "/srv/drafter"}, ["no target model is named"]),
        ({"model": "/srv/target", "algorithm": "dflash"}, ["needs a drafter", "algorithm: none"]),
        ({**PAIR, "engine_backend": "vllm"}, ["engine_backend = 'vllm'", "auto, sglang, transformers"]),
        ({**PAIR, "engine_backend": "transformers", "tp_size": 2}, ["one GPU or the CPU"]),
        ({**PAIR, "profiles": [{"model": "other"}]}, ["profiles[0]: model", "unknown"]),
        ({**PAIR, "profiles": [{"tp_size": 4}]}, ["above the instance's own 1", "goes down"]),
        ({**PAIR, "tp_size": 2, "profiles": [{"tp_size": 1}, {"tp_size": 1}]}, ["profile = 'tp1'", "taken"]),
        ({**PAIR, "profiles": [{"profile": "as wished", "budget": 8}]}, ["'as wished'", "taken"]),
        ({**PAIR, "profiles": "none"}, ["profiles = 'none'", "list of overrides"]),
        ({"model": "m", "profiles": [{"algorithm": "dflash"}]}, ["profile dflash", "needs a drafter"]),
    ],
)
def test_refused(given, words):
    with pytest.raises(PlanError) as refusal:
        normalise([given])
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([{**PAIR, "name": "a"}, {**PAIR, "name": "a"}], ["name = 'a'", "dflash_instances[0] (a) has it already"]),
        (
            [{**PAIR, "name": "a", "port": 30000}, {**PAIR, "name": "b", "port": "30000"}],
            ["dflash_instances[1]: port = 30000"],
        ),
        ([{**PAIR}, {**PAIR, "name": "b"}], ["dflash_instances[0]: name", "with several instances"]),
        ({**PAIR}, ["one mapping, not a list"]),
        (7, ["dflash_instances = 7", "type int"]),
        (["x"], ["dflash_instances[0] = 'x'", "Give a mapping"]),
    ],
)
def test_lists_refused(given, words):
    with pytest.raises(PlanError) as refusal:
        normalise(given)
    for word in words:
        assert word in str(refusal.value)


def test_flat_options_beside_a_list_are_refused():
    with pytest.raises(PlanError, match="dflash_budget beside dflash_instances"):
        normalise([dict(PAIR)], {"dflash_budget": "8"})


def test_an_unknown_flat_option_is_refused():
    with pytest.raises(PlanError, match=r"dflash_bugdet: this key is unknown. Did you mean dflash_budget"):
        normalise([], {"dflash_model": "m", "dflash_bugdet": 8})


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(PlanError) as refusal:
        normalise([{**PAIR, "algorithm": "x" * 5000}])
    assert len(str(refusal.value)) < 300
