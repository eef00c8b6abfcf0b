# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judging a surveyed fleet: who is which machine, what is free, what stands in the way."""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.filter.survey_fleet import survey_fleet
from ansible_collections.inferlab.dflash.plugins.module_utils._survey import changes, export, findings, fleet, table
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._survey import survey_story as story


def picture(hostvars, **options):
    return survey_fleet(hostvars, list(hostvars), **options)


def one(facts=None, answer=None, expect=None, **options):
    """The findings of a single host, by code."""
    first, second = story.results(facts or story.gpu("m", story.A6000, [1, 2]), answer or story.survey())
    hosts = picture({"h": {"_survey_gpu": first, "_survey_host": second, "dflash_expect": expect}}, **options)["hosts"]
    return {item["code"]: item for item in hosts["h"]["findings"]}


def codes(result, host):
    return [(item["severity"], item["code"]) for item in result["hosts"][host]["findings"]]


def test_the_story():
    result = picture(story.hostvars())
    states = {name: host["state"] for name, host in result["hosts"].items()}
    assert states == {
        "pve1": "ready",
        "ct129": "ready_after",
        "ct200": "ready",
        "ct300": "not_ready",
        "gone": "unreachable",
        "broken": "not_ready",
    }
    assert codes(result, "ct129") == [
        ("repairable", "driver_library_mismatch"),
        ("warning", "unit_failed"),
        ("warning", "driver_upgrades_itself"),
        ("info", "host_and_guest"),
        ("info", "user_space_differs"),
        ("info", "gpu_held"),
        ("info", "models_in_memory"),
    ]
    assert codes(result, "ct200") == [
        ("info", "gpu_held"),
        ("info", "gpu_held"),
        ("info", "training_running"),
        ("info", "blank_host"),
    ]
    assert codes(result, "ct300")[0] == ("critical", "wrong_machine")
    assert codes(result, "gone") == [("critical", "unreachable")]
    assert codes(result, "broken") == [("critical", "no_facts"), ("warning", "survey_failed")]


def test_the_wrong_machine_comes_first_of_all_and_names_both():
    first = picture(story.hostvars())["findings"][0]
    assert (first["host"], first["severity"], first["code"]) == ("ct300", "critical", "wrong_machine")
    assert "8 x RTX PRO 6000" in first["message"] and "2 x NVIDIA RTX A6000" in first["message"]


def test_a_guest_sees_by_its_host_who_holds_its_gpu():
    hosts = picture(story.hostvars())["hosts"]
    first, second = hosts["ct129"]["gpus"]
    assert (first["free"], second["free"]) == (False, True)
    assert [(h["pid"], h["unit"], h["seen_from"]) for h in first["holders"]] == [(9001, "sglang.service", "pve1")]
    assert hosts["ct129"]["shares_gpus_with"] == ["pve1"]
    assert hosts["pve1"]["shares_gpus_with"] == ["ct129"]


def test_processes_of_a_guest_are_not_called_the_hosts():
    found = {item["code"] for item in picture(story.hostvars())["hosts"]["pve1"]["findings"]}
    assert "runs_in_guest" in found and "blank_host" not in found


def test_what_two_hosts_say_of_each_other_is_told_once():
    found = [item["code"] for item in picture(story.hostvars())["findings"]]
    assert found.count("host_and_guest") == 1
    assert found.count("user_space_differs") == 1


def test_one_machine_under_two_names_is_neither_ready():
    hostvars = story.hostvars()
    hostvars = {"ct200": hostvars["ct200"], "again": hostvars["ct200"], "ct129": hostvars["ct129"]}
    result = picture(hostvars)
    assert [result["hosts"][name]["state"] for name in hostvars] == ["not_ready", "not_ready", "ready_after"]
    assert result["hosts"]["again"]["same_machine_as"] == ["ct200"]
    assert [item["code"] for item in result["findings"]].count("same_machine") == 1


def test_many_names_of_one_machine_are_told_once_each():
    known = story.hostvars()["ct200"]
    result = picture({f"n{number}": known for number in range(30)})
    assert [item["code"] for item in result["findings"]].count("same_machine") == 29
    assert len(result["hosts"]["n3"]["same_machine_as"]) == 29


def test_hosts_are_related_by_machine_and_gpu_only():
    answers = {
        name: fleet.answer_of(*story.results(facts, None))
        for name, facts in {
            "a": story.gpu("m1", story.A6000, [1]),
            "b": story.gpu("m1", story.A6000, [9]),
            "c": story.gpu("m2", story.A6000, [1]),
            "d": story.gpu("m3", story.A6000, [7]),
            "e": None,
        }.items()
    }
    assert fleet.related(answers) == {"a": ["b", "c"], "b": ["a"], "c": ["a"], "d": [], "e": []}


def test_an_own_instance_is_no_obstacle_and_no_foreign_holder():
    own = story.process(7, "python -m ddtree.server", 20000, "dflash-qwen.service")
    facts = story.gpu("m", story.A6000, [1], used={1: 20010}, processes={1: [own]})
    found = one(facts, story.survey(models=[story.model()]))
    assert not {"no_free_gpu", "gpu_held"} & set(found)


def test_no_free_gpu_stands_before_a_deployment():
    job = story.process(7, "python train.py", 20000)
    facts = story.gpu("m", story.A6000, [1], used={1: 20010}, processes={1: [job]})
    first, second = story.results(facts, story.survey())
    host = picture({"h": {"_survey_gpu": first, "_survey_host": second}})["hosts"]["h"]
    assert host["state"] == "ready_after"
    assert "Free a GPU" in host["verdict"]["after"][0]


def test_a_gpu_without_a_context_is_dead_and_not_just_held():
    first, second = story.results(story.gpu("m", story.A6000, [1, 2]), story.survey())
    contexts = {"dead": {story.uuid(1): "cuInit: error 999"}}
    known = {"_survey_gpu": first, "_survey_host": second, "_survey_contexts": contexts}
    host = picture({"h": known})["hosts"]["h"]
    assert [(gpu["free"], gpu["dead"]) for gpu in host["gpus"]] == [(False, True), (True, False)]
    told = {item["code"]: item["message"] for item in host["findings"]}
    assert "cuInit: error 999" in told["gpu_dead"]
    assert "gpu_held" not in told


def test_memory_without_a_visible_holder_is_not_free():
    facts = story.gpu("m", story.A6000, [1, 2], used={1: 30000})
    assert "no visible process explains" in one(facts)["gpu_held"]["message"]


SHM = {"mount": "/dev/shm", "device": "tmpfs", "type": "tmpfs", "size_mib": 64, "free_mib": 64}
DISK = {"mount": "/", "device": "/dev/sda", "type": "ext4", "size_mib": 102400, "free_mib": 10240}
TIME = story.SURVEY["time"]


@pytest.mark.parametrize(
    ("answer", "code", "severity", "words"),
    [
        (
            {"services": [story.service(active="failed", result="signal", restarts=3)]},
            "unit_failed",
            "warning",
            "result signal, 3 restarts",
        ),
        (
            {"services": [story.service("x.service", kind="other", active="failed")]},
            "unit_failed",
            "info",
            "x.service (other) failed",
        ),
        ({"services": [story.service(restarts=35)]}, "unit_restarting", "warning", "restarted 35 times"),
        ({"services": [story.service(stale=True)]}, "unit_stale", "info", "changed on disk"),
        ({"reboot": {"required": True, "packages": ["libc6"]}}, "system_reboot_required", "info", "(libc6)"),
        ({"time": {**TIME, "skew_s": -95.0}}, "clock_skew", "warning", "95 s behind"),
        ({"time": {**TIME, "skew_s": 31.0}}, "clock_skew", "warning", "31 s ahead of"),
        ({"disks": [DISK]}, "disk_low", "warning", "/ has 10 GiB free of 100 GiB"),
        ({"disks": [SHM]}, "shm_too_small", "warning", "64 MiB"),
        ({"models": [story.model("/dev/shm/q")]}, "models_in_memory", "info", "53.7 GiB"),
        (
            {"models": [story.model(missing_files=["a", "b"])]},
            "checkpoint_incomplete",
            "warning",
            "lacks 2 weight files, first a",
        ),
        (
            {"models": [story.model("/d", "drafter", pairs=[{"target": "/t", "ok": False, "problems": ["no"]}])]},
            "draft_target_mismatch",
            "warning",
            "with /t: no",
        ),
        (
            {"environments": [story.environment(cuda="13.1")]},
            "cuda_driver_too_old",
            "warning",
            "CUDA 13.1, the driver supports 13.0",
        ),
        (
            {"environments": [{**story.environment(), "imports": {"torch": "ok", "sglang": "ImportError: x"}}]},
            "import_failed",
            "warning",
            "sglang in /opt/sglang does not import: ImportError: x",
        ),
        (
            {"processes": [story.running(kind="training", command="torchrun x.py")]},
            "training_running",
            "info",
            "torchrun x.py",
        ),
        ({"warnings": [{"field": "trees", "reason": "stopped"}] * 5}, "survey_incomplete", "info", "and 2 more"),
        (
            {"upgrades": {"tool": "unattended-upgrades", "enabled": True, "driver_excluded": False}},
            "driver_upgrades_itself",
            "warning",
            "unattended-upgrades",
        ),
        ({}, "blank_host", "info", "h is blank"),
    ],
)
def test_each_finding(answer, code, severity, words):
    item = one(answer=story.survey(**answer))[code]
    assert item["severity"] == severity
    assert words in item["message"]
    assert item["remedy"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"services": [story.service(restarts=2)]}, "unit_restarting"),
        ({"time": {**TIME, "skew_s": 29.0}}, "clock_skew"),
        ({"time": {**TIME, "skew_s": None, "synchronized": False}}, "clock_unsynchronized"),
        ({"disks": [{**DISK, "free_mib": 20480}]}, "disk_low"),
        ({"disks": [{**DISK, "mount": "/boot/efi"}]}, "disk_low"),
        ({"disks": [{**DISK, "free_mib": None}]}, "disk_low"),
        ({"environments": [story.environment(cuda="cpu")]}, "cuda_driver_too_old"),
        ({"environments": [story.environment(cuda="12.8")]}, "cuda_driver_too_old"),
        (
            {"upgrades": {"tool": "unattended-upgrades", "enabled": True, "driver_excluded": True}},
            "driver_upgrades_itself",
        ),
        ({"environments": [story.environment()]}, "blank_host"),
    ],
)
def test_no_finding_where_nothing_is_wrong(answer, code):
    assert code not in one(answer=story.survey(**answer))


def test_a_clock_outside_a_container_is_the_hosts_own_business():
    machine = {**story.SURVEY["host"], "virtualization": "none"}
    assert "clock_unsynchronized" in one(answer=story.survey(host=machine, time={**TIME, "synchronized": False}))


def test_a_host_without_gpu_needs_no_shared_memory_and_its_driver_no_exclusion():
    bare = story.gpu("m", story.A6000, [], module=None, library=None, state="no_gpu")
    found = one(bare, story.survey(disks=[SHM], upgrades={"tool": "x", "enabled": True, "driver_excluded": False}))
    assert found == {}


def test_thresholds_can_be_set_and_unknown_ones_are_named():
    assert "disk_low" not in one(answer=story.survey(disks=[DISK]), thresholds={"disk_free_gib": 5})
    with pytest.raises(AnsibleFilterError, match="thresholds: disk is unknown; known are disk_free_gib"):
        one(thresholds={"disk": 1})


def test_a_bad_expectation_is_that_hosts_finding_not_the_surveys_end():
    assert "gpu_nmae" in one(expect={"gpu_nmae": "x"})["bad_expectation"]["message"]


def test_a_host_that_stops_answering_between_the_calls_is_half_known():
    answer = fleet.answer_of(story.results(story.gpu("m", story.A6000, [1]), None)[0], story.UNREACHABLE)
    assert answer["unreachable"] is False
    assert answer["problems"] == [
        "host_survey_info gave no answer: ssh: connect to host 192.0.2.9 port 22: No route to host"
    ]


def test_one_call_for_both_is_the_same_answer_as_two():
    first, second = story.results(story.gpu("m", story.A6000, [1]), story.survey())
    both = {**second, "gpu": first["ansible_facts"]["gpu"]}
    assert fleet.answer_of(None, both) == fleet.answer_of(first, second)


def test_a_host_that_was_never_asked_is_no_facts():
    assert picture({"h": {}})["hosts"]["h"]["verdict"]["verdict"] == "not_ready"


def report_of(result):
    return json.dumps({"kind": "survey", "generated": "2026-11-29T08:00:00Z", "hosts": result["hosts"]})


def test_the_same_fleet_has_no_changes():
    first = picture(story.hostvars())
    again = picture(story.hostvars(), previous=report_of(first), only_changes=True)
    assert again["changes"] == []
    assert again["lines"] == ["nothing changed since 2026-11-29T08:00:00Z"]


def test_loads_and_process_ids_are_no_change():
    first = report_of(picture(story.hostvars()))
    later = story.hostvars()
    for device in later["ct200"]["_survey_gpu"]["ansible_facts"]["gpu"]["devices"]:
        device["memory_used_mib"] += 8
    later["ct200"]["_survey_host"]["survey"]["processes"][0]["pid"] = 4343
    assert picture(later, previous=first)["changes"] == []


def test_changes_are_told_before_and_after():
    first = report_of(picture(story.hostvars()))
    later = story.hostvars()
    repaired = later["ct129"]["_survey_gpu"]["ansible_facts"]["gpu"]["driver"]
    repaired.update(state="healthy", user_space_version="580.126.09")
    later["ct129"]["_survey_host"]["survey"]["services"] = [story.service("dflash-qwen.service", kind="ddtree")]
    later["new"] = later["ct300"]
    del later["ct300"]
    later["gone"] = {**later["new"], "ansible_host": "192.0.2.9"}
    told = [changes.in_words(change) for change in picture(later, previous=first)["changes"]]
    assert "ct129: driver: mismatch -> healthy" in told
    assert "ct129: driver user space: 580.159.03 -> 580.126.09" in told
    assert "ct129: service sglang.service: gone, was failed (failed)" in told
    assert "ct129: service dflash-qwen.service: new, active (running)" in told
    assert "new: host: new, surveyed for the first time, not_ready" in told
    assert [line for line in told if line.startswith("gone:")] == ["gone: verdict: unreachable -> not_ready"]
    assert not [line for line in told if line.startswith("ct300:")]


@pytest.mark.parametrize("text", ["{", '{"kind": "deploy", "hosts": {}}', '{"hosts": {}}', "[]"])
def test_an_earlier_report_that_is_none_is_refused(text):
    with pytest.raises(AnsibleFilterError, match="the earlier report"):
        picture({"h": {}}, previous=text)


def test_only_changes_without_an_earlier_survey_says_so():
    assert picture({"h": {}}, only_changes=True)["lines"] == ["there is no earlier survey to compare with"]


def test_the_inventory_groups_by_model_count_driver_and_verdict():
    children = picture(story.hostvars())["inventory"]["all"]["children"]
    assert list(children["gpu_nvidia_rtx_a6000"]["hosts"]) == ["ct129", "ct300", "pve1"]
    assert list(children["gpus_8"]["hosts"]) == ["ct200"]
    assert list(children["driver_mismatch"]["hosts"]) == ["ct129"]
    assert list(children["verdict_unreachable"]["hosts"]) == ["gone"]
    assert "in_lxc" in children


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("gpu", "NVIDIA RTX A6000"), "gpu_nvidia_rtx_a6000"),
        (("gpu", "GB10 (x)"), "gpu_gb10_x"),
        (("gpus", 2), "gpus_2"),
    ],
)
def test_group_names(words, name):
    assert export.group_name(*words) == name


def test_the_table_has_a_line_a_host_and_says_what_to_do():
    lines = picture(story.hostvars())["lines"]
    assert lines[0].split() == ["HOST", "VERDICT", "GPUS", "FREE", "DRIVER", "SERVES", "FINDINGS"]
    ct129 = next(line for line in lines if line.startswith("ct129"))
    assert "ready after" in ct129 and "mismatch 580.126.09/580.159.03" in ct129 and "1/2" in ct129
    at = lines.index(next(line for line in lines if line.startswith("critical: ct300")))
    assert lines[at + 1].startswith("    -> Correct the address")


def test_a_long_list_of_findings_is_cut_in_the_terminal():
    items = [{"severity": "warning", "message": "m", "remedy": "r"}] * 25
    assert table.lines({}, items)[-1] == "... and 5 more in the report"
    assert table.lines({}, [])[0] == "no host was surveyed"


def test_serving_units_are_named_without_suffix():
    answer = story.survey(services=[story.service(), story.service("t.service", kind="training")])
    assert table.serving({"survey": answer}) == ["sglang"]


def test_levels_compare_by_number():
    assert findings._level("12.10") > findings._level("12.8")
