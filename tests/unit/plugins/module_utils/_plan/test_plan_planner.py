# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner, on facts of the hosts of the story and worse ones."""

from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.errors import PlanError
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.planner import plan
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.wishes import normalise
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._plan import plan_facts as facts


def wish(**more):
    return normalise([{"name": "main", "model": "/srv/t", "drafter": "/srv/d", **more}])


def wishes(*several):
    return normalise([{"model": "/srv/t", "drafter": "/srv/d", **one} for one in several])


def story(**more):
    """ct200: a 56 GB wrapper on GPU 0, seven free GPUs."""
    first = facts.device(0, used=56100, processes=[facts.process()])
    return facts.gpu([first] + [facts.device(n) for n in range(1, 8)], **more)


def test_cpu_only_host_with_transformers():
    (instance,) = plan(wish(engine_backend="transformers"), facts.NO_GPU)
    assert (instance["gpus"], instance["port"], instance["engine_backend"]) == ([], 30000, "transformers")
    assert "CUDA_VISIBLE_DEVICES" not in instance["env"]
    assert instance["warnings"] == []


def test_backend_auto_follows_the_hardware():
    assert plan(wish(), facts.NO_GPU)[0]["engine_backend"] == "transformers"
    assert plan(wish(), story())[0]["engine_backend"] == "sglang"


def test_sglang_without_a_gpu_is_refused():
    with pytest.raises(PlanError, match=r"no NVIDIA GPU.*engine_backend: transformers"):
        plan(wish(engine_backend="sglang"), facts.NO_GPU, host="web1")


def test_the_story_lands_on_gpu_1():
    (instance,) = plan(wish(), story())
    assert instance["gpus"] == [facts.uuid(1)]
    assert instance["env"]["CUDA_VISIBLE_DEVICES"] == facts.uuid(1)
    assert instance["devices"] == [{"index": 1, "uuid": facts.uuid(1), "name": facts.PRO6000}]


def test_unexplained_memory_is_foreign():
    gpu = facts.gpu([facts.device(0, used=5000), facts.device(1)])
    assert plan(wish(), gpu)[0]["gpus"] == [facts.uuid(1)]


def test_memory_below_the_idle_limit_is_free():
    gpu = facts.gpu([facts.device(0, used=1023)])
    assert plan(wish(), gpu)[0]["gpus"] == [facts.uuid(0)]
    with pytest.raises(PlanError, match="1023 MiB in use that no visible process explains"):
        plan(wish(), gpu, idle_mib=512)


def test_a_small_foreign_process_still_holds_its_gpu():
    gpu = facts.gpu([facts.device(0, used=400, processes=[facts.process(memory=300)])])
    with pytest.raises(PlanError, match=r"pid 4242 python train.py"):
        plan(wish(), gpu)


def test_a_display_server_holds_nothing():
    gpu = facts.gpu([facts.device(0, used=200, processes=[facts.process(memory=150, unit="gdm.service", type="G")])])
    assert plan(wish(), gpu)[0]["gpus"] == [facts.uuid(0)]


def test_too_few_free_gpus_lists_the_holders():
    gpu = facts.gpu([facts.device(0, used=56100, processes=[facts.process()]), facts.device(1)])
    with pytest.raises(PlanError) as refusal:
        plan(wish(tp_size=2), gpu, host="ct200")
    text = str(refusal.value)
    for part in (
        "ct200",
        "1 of 2 is free",
        facts.uuid(0),
        "pid 4242",
        "unit wrapper.service",
        "56000 MiB",
        "user root",
    ):
        assert part in text


def test_own_instance_keeps_its_gpu_and_port():
    mine = facts.process(unit="dflash-main.service", memory=50000)
    gpu = facts.gpu([facts.device(0), facts.device(1, used=50100, processes=[mine])])
    own = [{"name": "main", "gpus": [facts.uuid(1)], "port": 30007, "active": True}]
    listening = [{"port": 30007, "unit": "dflash-main.service", "pid": 9}]
    (instance,) = plan(wish(), gpu, own=own, listening=listening)
    assert (instance["gpus"], instance["port"]) == ([facts.uuid(1)], 30007)


def test_in_a_guest_the_record_explains_memory_of_an_own_instance():
    gpu = facts.gpu([facts.device(0), facts.device(1, used=50100)])
    own = [{"name": "main", "gpus": [facts.uuid(1)], "port": 30000, "active": True}]
    assert plan(wish(), gpu, own=own)[0]["gpus"] == [facts.uuid(1)]
    stopped = [{**own[0], "active": False}]
    assert plan(wish(), gpu, own=stopped)[0]["gpus"] == [facts.uuid(0)]


def test_an_own_instance_that_is_not_wished_for_is_a_holder():
    other = facts.process(unit="dflash-other.service")
    gpu = facts.gpu([facts.device(0, used=56100, processes=[other]), facts.device(1)])
    own = [{"name": "other", "gpus": [facts.uuid(0)], "port": 30000, "active": True}]
    assert plan(wish(), gpu, own=own)[0]["gpus"] == [facts.uuid(1)]


def test_a_dead_gpu_is_set_aside_and_named():
    (instance,) = plan(wish(), story(), dead={facts.uuid(1): "cuCtxCreate: unknown error (999)"})
    assert instance["gpus"] == [facts.uuid(2)]
    assert any(facts.uuid(1) in note and "999" in note for note in instance["warnings"])


def test_two_instances_get_two_gpus_and_ports():
    one, two = plan(wishes({"name": "a"}, {"name": "b"}), story())
    assert (one["gpus"], two["gpus"]) == ([facts.uuid(1)], [facts.uuid(2)])
    assert (one["port"], two["port"]) == (30000, 30001)


def test_auto_leaves_what_another_instance_names():
    one, two = plan(wishes({"name": "a"}, {"name": "b", "gpus": [facts.uuid(1)], "port": 30000}), story())
    assert (one["gpus"], two["gpus"]) == ([facts.uuid(2)], [facts.uuid(1)])
    assert (one["port"], two["port"]) == (30001, 30000)


def test_a_named_gpu_that_is_held_or_absent_is_refused():
    with pytest.raises(PlanError, match=r"is not free.*pid 4242"):
        plan(wish(gpus=[facts.uuid(0)]), story())
    with pytest.raises(PlanError, match="no such GPU; it has GPU 0"):
        plan(wish(gpus=["GPU-ffffffff"]), story())


def test_sharing_needs_fractions_that_fit():
    both = {"gpus": [facts.uuid(3)]}
    with pytest.raises(PlanError, match="would share it with mem_fraction None, None"):
        plan(wishes({"name": "a", **both}, {"name": "b", **both}), story())
    with pytest.raises(PlanError, match=r"0.5, 0.5"):
        plan(wishes({"name": "a", "mem_fraction": 0.5, **both}, {"name": "b", "mem_fraction": 0.5, **both}), story())
    plans = plan(
        wishes({"name": "a", "mem_fraction": 0.4, **both}, {"name": "b", "mem_fraction": 0.4, **both}), story()
    )
    assert [p["gpus"] for p in plans] == [[facts.uuid(3)], [facts.uuid(3)]]


def test_tp_prefers_nvlink_over_the_lowest_index():
    p2p = [facts.link(0, 1, "SYS"), facts.link(0, 2, "NV4"), facts.link(1, 2, "SYS")]
    gpu = facts.gpu([facts.device(n, name=facts.A6000) for n in range(3)], p2p=p2p)
    (instance,) = plan(wish(tp_size=2), gpu)
    assert instance["gpus"] == [facts.uuid(0), facts.uuid(2)]
    assert "NCCL_P2P_DISABLE" not in instance["env"]


def test_tp_without_a_matrix_prefers_one_numa_node():
    gpu = facts.gpu([facts.device(n, numa_node=node) for n, node in enumerate((0, 1, 1))])
    (instance,) = plan(wish(tp_size=2), gpu)
    assert instance["gpus"] == [facts.uuid(1), facts.uuid(2)]
    assert instance["numa"] == {"node": 1}


def test_no_numa_policy_in_a_container_or_on_one_node():
    gpu = facts.gpu([facts.device(n, numa_node=n) for n in range(2)])
    gpu["identity"]["container"] = "lxc"
    assert plan(wish(), gpu)[0]["numa"] is None
    assert plan(wish(), facts.gpu([facts.device(0, numa_node=0)]))[0]["numa"] is None


def test_pcie_workstation_boards_get_the_nccl_variable_and_say_so():
    gpu = facts.gpu([facts.device(n) for n in range(2)], p2p=[facts.link(0, 1, "NODE")])
    (instance,) = plan(wish(tp_size=2), gpu)
    assert instance["env"]["NCCL_P2P_DISABLE"] == "1"
    assert any("NCCL_P2P_DISABLE=1" in note and "RTX PRO 6000" in note for note in instance["warnings"])
    assert "NCCL_P2P_DISABLE" not in plan(wish(), gpu)[0]["env"]


def test_a_given_nccl_variable_wins_and_is_mentioned():
    gpu = facts.gpu([facts.device(n) for n in range(2)])
    (instance,) = plan(wish(tp_size=2, env={"NCCL_P2P_DISABLE": "0"}), gpu)
    assert instance["env"]["NCCL_P2P_DISABLE"] == "0"
    assert any("is kept as given" in note for note in instance["warnings"])


def test_data_centre_boards_are_left_alone_unless_the_matrix_says_no():
    devices = [facts.device(n, name="NVIDIA H100 PCIe") for n in range(2)]
    assert "NCCL_P2P_DISABLE" not in plan(wish(tp_size=2), facts.gpu(devices))[0]["env"]
    gpu = facts.gpu(devices, p2p=[facts.link(0, 1, "SYS", ok=False)])
    assert plan(wish(tp_size=2), gpu)[0]["env"]["NCCL_P2P_DISABLE"] == "1"


def test_a_broken_driver_is_refused_with_the_play_that_repairs_it_but_planned_in_check_mode():
    gpu = story(state="mismatch")
    with pytest.raises(PlanError, match=r"mismatch.*reconcile_driver"):
        plan(wish(), gpu)
    (instance,) = plan(wish(), gpu, tentative=True)
    assert instance["gpus"] == [facts.uuid(1)]
    assert "once the driver is repaired" in instance["warnings"][0]


def test_under_a_broken_driver_a_tentative_plan_needs_neither_memory_nor_uuids():
    gpu = facts.gpu([facts.device(n, used=None) for n in range(2)], state="mismatch")
    assert plan(wish(tp_size=2), gpu, tentative=True)[0]["gpus"] == [facts.uuid(0), facts.uuid(1)]
    nameless = facts.gpu([{**facts.device(n, used=None), "uuid": None} for n in range(2)], state="mismatch")
    (instance,) = plan(wish(tp_size=2), nameless, tentative=True)
    assert (instance["gpus"], instance["engine_backend"]) == ([], "sglang")
    assert "once the driver is repaired" in instance["warnings"][0]
    with pytest.raises(PlanError, match="0 of 2"):
        plan(wish(tp_size=3), nameless, tentative=True)


def test_a_held_gpu_stays_held_in_a_tentative_plan():
    gpu = facts.gpu([facts.device(0, used=None, processes=[facts.process()])], state="mismatch")
    with pytest.raises(PlanError, match="pid 4242"):
        plan(wish(), gpu, tentative=True)


@pytest.mark.parametrize(
    ("leaving", "process"),
    [
        (["train.service"], facts.process(unit="train.service")),
        ([{"unit": "train.service", "resume": True}], facts.process(unit="train.service")),
        (["python train.py *"], facts.process(unit="session-1.scope")),
        (["python train.py --lr 1"], facts.process(unit=None)),
    ],
)
def test_what_is_stopped_first_holds_nothing(leaving, process):
    gpu = facts.gpu([facts.device(0, used=56100, processes=[process])])
    assert plan(wish(), gpu, leaving=leaving)[0]["gpus"] == [facts.uuid(0)]
    with pytest.raises(PlanError):
        plan(wish(), gpu)


@pytest.mark.parametrize("leaving", [["other.service"], ["python train.pyx"], ["python train"], ["bash x *"]])
def test_what_is_not_listed_keeps_its_gpu(leaving):
    gpu = facts.gpu([facts.device(0, used=56100, processes=[facts.process()])])
    with pytest.raises(PlanError, match="pid 4242"):
        plan(wish(), gpu, leaving=leaving)


def test_a_taken_port_names_its_holder():
    listening = [{"port": 30000, "pid": 77, "command": "nginx", "unit": "nginx.service"}]
    with pytest.raises(
        PlanError, match=r"port 30000: it is taken by nginx \(pid 77, unit nginx.service\), which is left alone"
    ):
        plan(wish(port=30000, engine_backend="transformers"), facts.NO_GPU, listening=listening)
    assert plan(wish(engine_backend="transformers"), facts.NO_GPU, listening=listening)[0]["port"] == 30001


def test_unreadable_memory_is_not_free():
    with pytest.raises(PlanError, match="its used memory could not be read"):
        plan(wish(), facts.gpu([facts.device(0, used=None)]))


def test_mig_and_unnamed_devices_are_not_planned():
    with pytest.raises(PlanError, match="MIG is on"):
        plan(wish(), facts.gpu([facts.device(0, mig_mode=True)]))
    nameless = {**facts.device(0), "uuid": None}
    assert plan(wish(), facts.gpu([nameless, facts.device(1)]))[0]["gpus"] == [facts.uuid(1)]


class TestHostAndGuest:
    """pve sees every process of its GPUs; the guest ct200 sees memory only."""

    holder = facts.process(pid=900, unit="pve-container@7.service", cgroup="/lxc/7/ns/system.slice/other.service")

    def guest(self, used=56100):
        return facts.gpu([facts.device(0, used=used), facts.device(1)], machine="guest")

    def test_the_host_explains_what_the_guest_cannot_see(self):
        host = facts.gpu([facts.device(0, used=56100, processes=[self.holder]), facts.device(1)], machine="pve")
        with pytest.raises(PlanError) as refusal:
            plan(wish(tp_size=2), self.guest(), host="ct200", peers={"pve": {"gpu": host}})
        assert "seen from pve" in str(refusal.value)
        assert "pid 900" in str(refusal.value)

    def test_both_divide_the_gpus_the_same_way(self):
        host = facts.gpu([facts.device(0), facts.device(1)], machine="pve")
        guest = self.guest(used=4)
        (of_guest,) = plan(wish(), guest, host="ct200", peers={"pve": {"gpu": host, "wishes": wish()}})
        (of_host,) = plan(wish(), host, host="pve", peers={"ct200": {"gpu": guest, "wishes": wish()}})
        assert of_guest["gpus"] == [facts.uuid(0)]
        assert of_host["gpus"] == [facts.uuid(1)]

    def test_an_instance_of_the_guest_is_foreign_to_the_host_although_its_unit_has_our_name(self):
        inside = facts.process(unit=None, cgroup="/lxc/200/ns/system.slice/dflash-main.service")
        host = facts.gpu([facts.device(0, used=56100, processes=[inside]), facts.device(1)], machine="pve")
        assert plan(wish(), host, host="pve")[0]["gpus"] == [facts.uuid(1)]

    def test_the_guest_recognises_its_own_instance_through_the_host(self):
        inside = facts.process(unit=None, cgroup="/lxc/200/ns/system.slice/dflash-main.service")
        host = facts.gpu([facts.device(0, used=56100, processes=[inside]), facts.device(1)], machine="pve")
        own = [{"name": "main", "gpus": [facts.uuid(0)], "port": 30000, "active": True}]
        (instance,) = plan(wish(), self.guest(), host="ct200", own=own, peers={"pve": {"gpu": host}})
        assert instance["gpus"] == [facts.uuid(0)]
        (moved,) = plan(wish(), self.guest(), host="ct200", peers={"pve": {"gpu": host}})
        assert moved["gpus"] == [facts.uuid(1)]

    def test_a_peer_that_cannot_be_planned_takes_nothing(self):
        host = facts.gpu([facts.device(0), facts.device(1)], machine="apve")
        peers = {"apve": {"gpu": host, "wishes": wish(tp_size=4)}}
        assert plan(wish(), self.guest(used=4), host="ct200", peers=peers)[0]["gpus"] == [facts.uuid(0)]
