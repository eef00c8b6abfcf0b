# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import shutil
import struct

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._models import manifest, safetensors, stage_host, staging


def write_weights(path, size=64):
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(size)))


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    write_weights(folder / "model.safetensors")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "x").write_text("not part of the model")
    return folder


@pytest.fixture
def params(tmp_path, source):
    return {
        "directory": str(tmp_path / "models"),
        "name": "pair",
        "mirror": None,
        "verify": "quick",
        "manifest": manifest.describe(str(source)),
        "file": None,
    }


def bring(params, source, tmp_path, only=None):
    """What the action plugin does: send what compare asks for."""
    sent = []
    for entry in stage_host.compare(params)["send"]:
        if only is not None and entry["path"] not in only:
            continue
        temporary = tmp_path / "part"
        shutil.copy(source / entry["path"], temporary)
        stage_host.receive({**params, "file": {**entry, "temporary": str(temporary)}})
        sent.append(entry["path"])
    return sent


def test_a_model_arrives_whole_and_the_second_run_sends_nothing(params, source, tmp_path):
    compared = stage_host.compare(params)
    assert compared["changed"] and compared["files"] == ["config.json", "model.safetensors"]
    assert bring(params, source, tmp_path) == ["config.json", "model.safetensors"]
    assert not os.path.exists(os.path.join(params["directory"], "pair"))
    published = stage_host.publish(params)
    assert published["path"] == os.path.join(params["directory"], "pair")
    again = stage_host.compare(params)
    assert (again["changed"], again["send"], again["digest"]) == (False, [], published["digest"])
    assert stage_host.compare({**params, "verify": "full"})["changed"] is False


def test_a_killed_run_goes_on_where_it_stopped(params, source, tmp_path):
    bring(params, source, tmp_path, only=["config.json"])
    assert [entry["path"] for entry in stage_host.compare(params)["send"]] == ["model.safetensors"]
    bring(params, source, tmp_path)
    stage_host.publish(params)
    assert stage_host.compare(params)["changed"] is False


def test_a_file_damaged_on_the_way_is_refused_and_the_model_untouched(params, source, tmp_path):
    entry = next(entry for entry in params["manifest"]["files"] if entry["path"] == "config.json")
    temporary = tmp_path / "part"
    temporary.write_text("damaged")
    with pytest.raises(staging.StagingError, match=r"config\.json arrived damaged"):
        stage_host.receive({**params, "file": {**entry, "temporary": str(temporary)}})
    assert not temporary.exists()
    assert stage_host.compare(params)["files"] == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("drift", ["deleted", "edited", "added"])
def test_drift_of_the_staged_copy_is_seen_and_only_that_is_sent(params, source, tmp_path, drift):
    bring(params, source, tmp_path)
    stage_host.publish(params)
    staged = tmp_path / "models" / "pair"
    if drift == "deleted":
        (staged / "config.json").unlink()
    elif drift == "edited":
        (staged / "config.json").write_text('{"edited": true}')
    else:
        (staged / "extra.json").write_text("{}")
    compared = stage_host.compare(params)
    assert compared["changed"]
    assert [entry["path"] for entry in compared["send"]] == ([] if drift == "added" else ["config.json"])
    bring(params, source, tmp_path)
    stage_host.publish(params)
    assert sorted(manifest.model_files(str(staged))) == ["config.json", "model.safetensors"]
    assert stage_host.compare(params)["changed"] is False


def test_a_mirror_in_memory_is_made_and_remade(params, source, tmp_path):
    params = {**params, "mirror": str(tmp_path / "shm")}
    bring(params, source, tmp_path)
    assert stage_host.publish(params)["path"] == str(tmp_path / "shm" / "pair")
    assert stage_host.compare(params)["changed"] is False
    shutil.rmtree(tmp_path / "shm")
    compared = stage_host.compare(params)
    assert (compared["changed"], compared["send"]) == (True, [])
    stage_host.publish(params)
    assert (tmp_path / "shm" / "pair" / "model.safetensors").exists()


def test_truncated_weights_are_never_published(params, source, tmp_path):
    weights = source / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    params["manifest"] = manifest.describe(str(source))
    bring(params, source, tmp_path)
    with pytest.raises(safetensors.SafetensorsError, match="truncated"):
        stage_host.publish(params)
    assert not (tmp_path / "models" / "pair").exists()


def test_space_is_asked_for_before_the_first_byte():
    staging.check_space(10, staging.RESERVE_BYTES + 10, "/m")
    with pytest.raises(staging.StagingError, match=r"/m has 0\.25 GiB free, the model needs 1\.00 GiB"):
        staging.check_space(2**30, staging.RESERVE_BYTES, "/m")


def test_a_directory_used_in_place_must_be_a_model(source, tmp_path):
    assert stage_host.inspect(str(source))["changed"] is False
    with pytest.raises(staging.StagingError, match="is not on this host"):
        stage_host.inspect(str(tmp_path / "nowhere"))
    (source / "config.json").unlink()
    with pytest.raises(staging.StagingError, match=r"no config\.json"):
        stage_host.inspect(str(source))


def test_unchanged_files_are_not_read_again(source):
    first = manifest.describe(str(source))
    known = {"files": [{**entry, "sha256": "from the cache"} for entry in first["files"]]}
    assert {entry["sha256"] for entry in manifest.describe(str(source), known)["files"]} == {"from the cache"}
    os.utime(source / "config.json", ns=(1, 1))
    second = {entry["path"]: entry["sha256"] for entry in manifest.describe(str(source), known)["files"]}
    assert second["config.json"] != "from the cache" and second["model.safetensors"] == "from the cache"
