# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a model directory: whole, truncated, or something else under that name."""

from __future__ import annotations

import json
import struct

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._models import checkpoint, safetensors
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._models import model_dirs


def test_a_whole_file(tmp_path):
    path = tmp_path / "model.safetensors"
    model_dirs.safetensors(path, {"x": [2, 3]})
    tensor = {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}
    assert safetensors.read_header(str(path)) == {"x": tensor}


@pytest.mark.parametrize("cut", [1, 4, 11])
def test_truncated_data(tmp_path, cut):
    path = tmp_path / "model.safetensors"
    model_dirs.safetensors(path, {"x": [2, 3]})
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(
        safetensors.SafetensorsError, match=r"model\.safetensors is truncated: [0-9]+ bytes, its header"
    ):
        safetensors.read_header(str(path))


def test_truncated_everywhere_is_never_taken_for_whole(tmp_path):
    path = tmp_path / "model.safetensors"
    model_dirs.safetensors(path, {"x": [2, 3]})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(safetensors.SafetensorsError, match="truncated"):
            safetensors.read_header(str(path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git LFS pointer"),
        (b"PK\x03\x04" + b"\xff" * 40, "not a safetensors file"),
        (struct.pack("<Q", 4) + b"nope", "damaged header"),
        (struct.pack("<Q", 2) + b"[]", "damaged header"),
        (struct.pack("<Q", 14) + b'{"x":{"a":1}} ', "damaged header"),
        (struct.pack("<Q", 9) + b'{"x":[1]}', "damaged header"),
    ],
)
def test_something_else(tmp_path, content, words):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(safetensors.SafetensorsError, match=words):
        safetensors.read_header(str(path))


def test_bytes_that_no_tensor_owns(tmp_path):
    path = tmp_path / "model.safetensors"
    model_dirs.safetensors(path, {"x": [2, 3]})
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(safetensors.SafetensorsError, match="longer than its header says"):
        safetensors.read_header(str(path))


def test_a_shape_that_does_not_fit_its_bytes(tmp_path):
    header = json.dumps({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(safetensors.SafetensorsError, match="tensor x has 8 bytes"):
        safetensors.read_header(str(path))


def test_a_missing_shard_is_named(tmp_path):
    path = model_dirs.directory(tmp_path / "m", model_dirs.TARGET)
    model_dirs.safetensors(path / "a.safetensors", {"x": [2]})
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
    path.joinpath("model.safetensors.index.json").write_text(json.dumps(index))
    assert checkpoint.read(str(path))["weights"]["problems"] == ["b.safetensors is missing, the index names it"]


def test_a_tensor_of_the_index_that_no_shard_has(tmp_path):
    path = model_dirs.directory(tmp_path / "m", model_dirs.TARGET)
    model_dirs.safetensors(path / "a.safetensors", {"x": [2]})
    index = {"weight_map": {"x": "a.safetensors", "y": "a.safetensors"}}
    path.joinpath("model.safetensors.index.json").write_text(json.dumps(index))
    assert "the first is y" in checkpoint.read(str(path))["weights"]["problems"][0]


def test_an_absent_directory_and_an_empty_one(tmp_path):
    assert checkpoint.read(str(tmp_path / "no"))["exists"] is False
    read = checkpoint.read(str(tmp_path))
    assert (read["exists"], read["config"], read["weights"]["files"]) == (True, None, [])


@pytest.mark.parametrize("text", ["{", "[]", "\xff\xfe"])
def test_a_broken_configuration_is_a_problem_and_no_crash(tmp_path, text):
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    read = checkpoint.read(str(tmp_path))
    assert read["config"] is None
    assert "config.json" in read["problems"][0]


def test_tokenizers_that_differ_in_spelling_only_have_one_hash(tmp_path):
    old = model_dirs.directory(tmp_path / "old", {}, words=model_dirs.tokenizer())
    words = model_dirs.tokenizer()
    words["model"]["merges"] = [["a", "b"]]
    new = model_dirs.directory(tmp_path / "new", {}, words=words)
    assert checkpoint.read(str(old))["tokenizer"]["hash"] == checkpoint.read(str(new))["tokenizer"]["hash"]


def test_a_broken_tokenizer_is_a_problem(tmp_path):
    path = model_dirs.directory(tmp_path / "m", {}, words={"model": {"vocab": {}}, "added_tokens": [{"x": 1}]})
    assert "tokenizer.json is malformed" in checkpoint.read(str(path))["problems"][0]
