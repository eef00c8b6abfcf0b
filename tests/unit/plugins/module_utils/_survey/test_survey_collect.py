# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collectors of the survey, on planted trees."""

from __future__ import annotations

import os
import socket

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._survey import (
    artefacts,
    collect,
    commands,
    guests,
    processes,
    services,
    software,
    source,
    system,
    trees,
)
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._survey.survey_tree import plant, process

COMPILED = commands.compile_patterns(commands.PATTERNS)
SGLANG = [
    "/opt/sglang/bin/python3",
    "-m",
    "sglang.launch_server",
    "--model-path",
    "/models/qwen",
    "--api-key",
    "sk-secret-0123456789abcdef",
    "--port=30000",
    "--tp-size",
    "2",
]
TCP = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n"
    "   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0\n"
    "   2: 0100007F:9999 0100007F:0016 01 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0\n"
)


@pytest.mark.parametrize(
    ("argv", "command", "options"),
    [
        (SGLANG, "python3 -m sglang.launch_server", {"model-path": "/models/qwen", "port": "30000", "tp-size": "2"}),
        (["/usr/bin/python3.12", "-u", "-X", "dev", "train.py", "--lr", "1"], "python3.12 train.py", {}),
        (["python", "-c", "print('hunter2')"], "python -c ...", {}),
        (
            ["/v/bin/torchrun", "--nproc-per-node", "8", "/w/train.py", "--token", "x"],
            "torchrun /w/train.py",
            {"nproc-per-node": "8"},
        ),
        (["sglang::scheduler_TP0"], "sglang::scheduler_TP0", {}),
        (["vllm", "serve", "m", "--port", "--api-key", "x"], "vllm serve", {}),
        (["ollama"], "ollama", {}),
        (["sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups"], "sshd", {}),
        ([], "", {}),
    ],
)
def test_a_command_is_told_without_its_secrets(argv, command, options):
    assert commands.describe(argv) == (command, options)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("run --api-key abc --port 1", "run --api-key ******** --port 1"),
        ("HF_TOKEN=abc run", "HF_TOKEN=******** run"),
        ("https://me:pw@host/x", "https://host/x"),
        ("model sk-0123456789abcdef0123", "model ********"),
        ("keyboard driver", "keyboard driver"),
        ("SGLang for Qwen", "SGLang for Qwen"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text, left):
    assert commands.masked(text) == left


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("python -m ddtree.server --model x", "ddtree"),
        ("dflash-qwen.service DFlash instance", "ddtree"),
        ("python -m sglang.launch_server", "sglang"),
        ("VLLM::EngineCore", "vllm"),
        ("/opt/v/bin/python /jobs/pretrain_gpt.py", "training"),
        ("accelerate launch finetune.py", "training"),
        ("torchrun x.py", "training"),
        ("/usr/local/bin/ollama serve", "serving"),
        ("/usr/bin/python3 /usr/bin/networkd-dispatcher --run-startup-triggers", None),
        ("constrained.py", None),
    ],
)
def test_kinds(text, kind):
    assert commands.kind_of(text, COMPILED) == kind


def test_own_patterns_replace_the_kinds_and_a_bad_one_is_named():
    assert commands.kind_of("foo", commands.compile_patterns({"mine": ["fo+"], "none": []})) == "mine"
    with pytest.raises(ValueError, match=r"patterns\.mine: \['\('\] is no list of regular expressions"):
        commands.compile_patterns({"mine": ["("]})


def test_processes_of_interest_with_ports_and_environment(tmp_path):
    planted = plant(
        tmp_path,
        {
            "/etc/passwd": "root:x:0:0:r:/root:/bin/sh\nml:x:1000:1000::/home/ml:/bin/sh\n",
            "/proc/net/tcp": TCP,
            "/opt/sglang/pyvenv.cfg": "version = 3.12.3\n",
            "/opt/sglang/bin/python3": "",
            **process(100, SGLANG, "/system.slice/sglang.service", "/opt/sglang/bin/python3", 1000, [4711]),
            **process(101, ["/usr/sbin/sshd", "-D"], "/system.slice/ssh.service", sockets=[4712]),
            **process(102, ["python", "train.py"], "/lxc/129/ns/system.slice/t.service", "/opt/gone/bin/python", 1000),
            **process(103, SGLANG),
            "/proc/104/cmdline": "",
        },
    )
    running = processes.collect_processes(planted, COMPILED, own_pid=103)
    ports = processes.collect_ports(planted, running)
    first, second = running
    assert (first["pid"], first["kind"], first["user"], first["unit"]) == (100, "sglang", "ml", "sglang.service")
    assert (first["environment"], first["rss_mib"], first["ports"]) == ("/opt/sglang", 2, [30000])
    assert "secret" not in str(running)
    assert (second["guest"], second["user"], second["uid"]) == ({"kind": "lxc", "id": "129"}, None, 1000)
    assert second["executable_missing"] is True
    assert [(p["port"], p["address"], p["pid"], p["unit"]) for p in ports] == [
        (22, "0.0.0.0", 101, "ssh.service"),
        (30000, "127.0.0.1", 100, "sglang.service"),
    ]


def test_in_a_container_its_own_processes_are_no_guests(tmp_path):
    own = "/libpod_parent/libpod-0123456789abcdef"
    planted = plant(
        tmp_path,
        {
            "/etc/passwd": "root:x:0:0::/:/bin/sh\n",
            **process(1, ["/sbin/init"], own + "/init.scope"),
            **process(10, ["python", "train.py"], own + "/system.slice/t.service"),
            **process(11, ["python", "train.py"], own + "/lxc/129/ns/t.service"),
        },
    )
    mine, guests = processes.collect_processes(planted, COMPILED, 0)
    assert (mine["guest"], mine["user"], mine["unit"]) == (None, "root", "t.service")
    assert guests["guest"] == {"kind": "lxc", "id": "129"}


def test_a_port_without_a_visible_holder_is_still_a_port(tmp_path):
    planted = plant(tmp_path, {"/proc/net/tcp": TCP})
    assert [(p["port"], p["pid"]) for p in processes.collect_ports(planted, [])] == [(22, None), (30000, None)]


@pytest.mark.parametrize(
    "address",
    ["::", "::1", "::2", "fe80::1", "2001:db8::17", "::ffff:192.0.2.1", "0.0.0.0", "127.0.0.53", "192.0.2.255"],
)
def test_addresses(address):
    raw = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    words = [raw[at : at + 4][::-1].hex().upper() for at in range(0, len(raw), 4)]
    assert processes.plain_address("".join(words)) == address


def test_more_processes_than_the_bound_are_cut_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_MOST", 2)
    files = {}
    for pid in range(10, 14):
        files.update(process(pid, ["python", "train.py"]))
    planted = plant(tmp_path, files)
    assert len(processes.collect_processes(planted, COMPILED, 0)) == 2
    assert "more than 2 processes" in planted.warnings[0]["reason"]


LIST = (
    "  ssh.service            loaded active   running OpenBSD Secure Shell server\n"
    "● llm.service            loaded failed   failed  The language model\n"
    "  broken-mount.service   loaded failed   failed  Something else\n"
    "  qwen.service           loaded active   running SGLang for Qwen\n"
    "  apt-daily-upgrade.timer loaded active  waiting Daily apt upgrade and clean activities\n"
    "  dnf-automatic.timer    loaded inactive dead    dnf-automatic timer\n"
    "  sglang-warm.timer      loaded active   waiting Warms SGLang\n"
)
SHOW = (
    "Id=broken-mount.service\nActiveState=failed\n\n"
    "Id=llm.service\nDescription=The language model\nLoadState=loaded\nActiveState=failed\nSubState=failed\nUnitFileState=enabled\n"
    "Result=signal\nNRestarts=35\nMainPID=0\nExecMainStatus=9\nMemoryCurrent=18446744073709551615\nNeedDaemonReload=yes\n\n"
    "Id=qwen.service\nActiveState=active\nMainPID=100\nMemoryCurrent=2097152\nNeedDaemonReload=no\n"
)


def test_services_from_files_processes_and_failures(tmp_path):
    asked = []

    def run(argv):
        asked.append(argv)
        return 0, LIST if "list-units" in argv else SHOW

    planted = plant(
        tmp_path,
        {
            "/etc/systemd/system/llm.service": "[Unit]\nDescription=The language model\n[Service]\nUser=ml\n"
            "ExecStart=/opt/v/bin/python \\\n  -m sglang.launch_server\n",
            "/etc/systemd/system/other.service": "[Service]\nExecStart=/bin/true\n",
        },
    )
    planted._run = run
    running = [
        {"unit": "wrapper.service", "kind": "training", "guest": None},
        {"unit": "g.service", "kind": "vllm", "guest": {"id": "1"}},
    ]
    found, timers = services.collect_services(planted, COMPILED, running)
    assert [(unit["unit"], unit["kind"], unit["active"]) for unit in found] == [
        ("broken-mount.service", "other", "failed"),
        ("llm.service", "sglang", "failed"),
        ("qwen.service", "sglang", "active"),
        ("wrapper.service", "training", None),
    ]
    failed = found[1]
    assert (failed["result"], failed["restarts"], failed["main_pid"], failed["memory_mib"]) == (
        "signal",
        35,
        None,
        None,
    )
    assert (failed["user"], failed["stale"]) == ("ml", True)
    assert (found[2]["main_pid"], found[2]["memory_mib"], found[2]["stale"]) == (100, 2, False)
    assert timers == {"apt-daily-upgrade.timer"}
    assert len(asked) == 2


def test_without_services_of_interest_systemctl_is_asked_once(tmp_path):
    asked = []

    def run(argv):
        asked.append(argv)
        return (
            0,
            "ssh.service loaded active running OpenBSD Secure Shell server\ndnf-automatic.timer loaded active waiting x\n",
        )

    planted = plant(tmp_path, {})
    planted._run = run
    assert services.collect_services(planted, COMPILED, []) == ([], {"dnf-automatic.timer"})
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("listed", "shown", "warned"),
    [("", "", True), (LIST, "", True), (LIST, SHOW, False), ("ssh.service loaded active running SSH\n", "", False)],
)
def test_a_systemctl_that_does_not_answer_is_said(tmp_path, listed, shown, warned):
    planted = plant(tmp_path, {})
    planted.live, planted._run = True, lambda argv: (0, listed if "list-units" in argv else shown)
    services.collect_services(planted, COMPILED, [])
    assert [warning["field"] for warning in planted.warnings] == ["services"] * warned


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"Description": "/usr/bin/x --token abc", "UnitFileState": "transient"}, None),
        ({"Description": "SGLang for Qwen", "UnitFileState": "enabled"}, "SGLang for Qwen"),
        ({"Description": "x --api-key sk-0123456789abcdef0123"}, "x --api-key ********"),
        ({}, "of the file"),
    ],
)
def test_a_description_that_is_a_command_line_is_left_out(state, told):
    assert (
        services.describe_service("x.service", "sglang", {"description": "of the file"}, state)["description"] == told
    )


def test_environments_and_their_versions(tmp_path):
    site = "/opt/v/lib/python3.12/site-packages"
    planted = plant(
        tmp_path,
        {
            "/opt/v/pyvenv.cfg": "home = /usr/bin\nversion = 3.12.3\n",
            f"{site}/torch-2.11.0+cu130.dist-info/METADATA": "",
            f"{site}/torch/version.py": "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n",
            f"{site}/sgl_kernel-0.3.9.dist-info/METADATA": "",
            f"{site}/flash_attn-2.8.3.dist-info/METADATA": "",
            f"{site}/sglang-0.5.17.dist-info/direct_url.json": {
                "url": "file:///src/sglang/python",
                "dir_info": {"editable": True},
            },
            f"{site}/requests-2.0.dist-info/METADATA": "",
            "/opt/v/lib64": ("->", "lib"),
        },
    )
    assert software.describe_environment(planted, "/opt/v") == {
        "path": "/opt/v",
        "kind": "venv",
        "python": "3.12.3",
        "packages": {"flash-attn": "2.8.3", "sgl-kernel": "0.3.9", "sglang": "0.5.17", "torch": "2.11.0+cu130"},
        "editable": {"sglang": "/src/sglang/python"},
        "torch_cuda": "13.0",
    }


@pytest.mark.parametrize(
    ("text", "cuda"),
    [("cuda = None\n", "cpu"), ('cuda: str = "12.8"\n', "12.8"), ("hip = '6'\n", None), (None, None)],
)
def test_cuda_of_torch(text, cuda):
    assert software.torch_cuda(text) == cuda


def test_import_test_needs_no_gpu_and_writes_no_bytecode(tmp_path):
    planted = plant(tmp_path, {})
    asked = []

    def run(argv):
        asked.append(argv)
        return 0, "warning: x\nImportError: libcudart.so.13\n"

    planted._run = run
    environment = {"path": "/v", "packages": {"flash-attn": "2"}}
    assert software.import_test(planted, environment) == {"flash_attn": "ImportError: libcudart.so.13"}
    assert asked[0][:3] == ["env", "CUDA_VISIBLE_DEVICES=", "PYTHONDONTWRITEBYTECODE=1"]
    assert "-B" in asked[0]


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_checkouts_with_branch_tag_and_no_credentials(tmp_path):
    planted = plant(
        tmp_path,
        {
            "/src/engine/.git/HEAD": "ref: refs/heads/main\n",
            "/src/engine/.git/config": '[core]\n\tbare = false\n[remote "origin"]\n\turl = https://me:tok@example.org/x/sglang.git\n\tfetch = x\n',
            "/src/engine/.git/packed-refs": f"# pack-refs\n{COMMIT} refs/heads/main\n{'f' * 40} refs/tags/v0.5.17\n^{COMMIT}\n",
            "/src/dotfiles/.git/HEAD": "ref: refs/heads/main\n",
            "/src/vllm/.git": "gitdir: ../store\n",
            "/src/store/HEAD": COMMIT + "\n",
        },
    )
    assert software.describe_checkout(planted, "/src/engine") == {
        "path": "/src/engine",
        "remote": "https://example.org/x/sglang.git",
        "branch": "main",
        "commit": COMMIT[:12],
        "tag": "v0.5.17",
    }
    assert software.describe_checkout(planted, "/src/dotfiles") is None
    detached = software.describe_checkout(planted, "/src/vllm")
    assert (detached["branch"], detached["commit"], detached["remote"]) == (None, COMMIT[:12], None)


TARGET = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 8,
    "hidden_size": 384,
    "vocab_size": 4096,
}
DRAFTER = {
    "architectures": ["DFlashDraftModel"],
    "block_size": 16,
    "dflash_config": {"target_layer_ids": [1, 3, 5], "mask_token_id": 3},
    "num_hidden_layers": 3,
    "hidden_size": 384,
}


def test_models_with_size_role_and_missing_shards(tmp_path):
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    planted = plant(
        tmp_path,
        {
            "/models/t/config.json": {**TARGET, "quantization_config": {"quant_method": "fp8"}},
            "/models/t/model-1.safetensors": b"x" * (3 << 20),
            "/models/t/model.safetensors.index.json": index,
            "/models/broken/config.json": "[]",
            "/models/broken/model.bin": b"x",
        },
    )
    model, broken = artefacts.describe_models(planted, ["/models/t", "/models/broken"])
    assert (model["name"], model["role"], model["architecture"], model["quantization"]) == (
        "t",
        "target",
        "Qwen3ForCausalLM",
        "fp8",
    )
    assert (model["size_mib"], model["layers"], model["missing_files"]) == (3, 8, ["model-2.safetensors"])
    assert broken["architecture"] is None
    assert planted.warnings == [{"field": "models./models/broken", "reason": "config.json is no JSON object"}]


def test_a_drafter_names_the_targets_that_it_fits(tmp_path):
    planted = plant(
        tmp_path,
        {
            "/m/fits/config.json": TARGET,
            "/m/wide/config.json": {**TARGET, "hidden_size": 5120},
            "/m/broken/config.json": "",
            "/dev/shm/fits/config.json": TARGET,
            "/m/d/config.json": DRAFTER,
        },
    )
    models = artefacts.describe_models(planted, ["/m/fits", "/m/wide", "/m/broken", "/dev/shm/fits", "/m/d"])
    drafter = models[-1]
    assert drafter["role"] == "drafter"
    assert [(pair["target"], pair["ok"]) for pair in drafter["pairs"]] == [
        ("/m/fits", True),
        ("/m/wide", False),
        ("/m/broken", False),
    ]
    assert "5120" in drafter["pairs"][1]["problems"][0]
    assert models[3]["copy_of"] == "/m/fits"


@pytest.mark.parametrize(
    ("config", "drafter"),
    [
        (TARGET, False),
        (DRAFTER, True),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, True),
        ({"architectures": ["Qwen3ForCausalLM"], "target_layer_ids": [1]}, True),
        ({}, False),
    ],
)
def test_drafters(config, drafter):
    assert artefacts.is_drafter(config) is drafter


def test_a_copy_in_memory_names_its_origin(tmp_path):
    files = {}
    for place in ("/data/q", "/dev/shm/q", "/dev/shm/other"):
        files[f"{place}/config.json"] = TARGET
        files[f"{place}/model.safetensors"] = b"x" * ((2 if "other" in place else 1) << 20)
    planted = plant(tmp_path, files)
    models = artefacts.describe_models(planted, ["/data/q", "/dev/shm/q", "/dev/shm/other"])
    assert [model["copy_of"] for model in models] == [None, "/data/q", None]


def test_the_walk_finds_all_three_kinds_and_stays_out_of_the_rest(tmp_path):
    planted = plant(
        tmp_path,
        {
            "/opt/a/pyvenv.cfg": "",
            "/opt/a/lib/deep/.git/HEAD": "",
            "/opt/conda/conda-meta/history": "",
            "/opt/sglang/.git/HEAD": "",
            "/opt/sglang/.venv/pyvenv.cfg": "",
            "/opt/node_modules/m/config.json": "{}",
            "/opt/node_modules/m/w.bin": "",
            "/opt/link": ("->", "a"),
            "/opt/1/2/3/4/5/pyvenv.cfg": "",
            "/home/ml/.cache/huggingface/hub/models--Q--W/snapshots/abc/config.json": "{}",
            "/home/ml/.cache/huggingface/hub/models--Q--W/snapshots/abc/model.safetensors": "",
            "/home/ml/.cache/pip/pyvenv.cfg": "",
            "/mnt/nas/v/pyvenv.cfg": "",
            "/proc/mounts": "nas:/x /mnt/nas nfs4 rw 0 0\n",
        },
    )
    found = trees.walk(planted, trees.PATHS, depth=4)
    assert found.environments == ["/opt/a", "/opt/conda", "/opt/sglang/.venv"]
    assert found.checkouts == ["/opt/sglang"]
    assert found.models == ["/home/ml/.cache/huggingface/hub/models--Q--W/snapshots/abc"]
    assert planted.warnings == []
    assert artefacts.model_name(found.models[0], {}) == "Q/W"


def test_the_walk_ends_at_its_bounds_and_says_so(tmp_path):
    planted = plant(tmp_path, {f"/opt/{n}/pyvenv.cfg": "" for n in range(9)})
    assert len(trees.walk(planted, ["/opt"], entries=12).environments) < 9
    assert "stopped after" in planted.warnings[0]["reason"]
    late = source.Source(str(tmp_path), seconds=-1.0)
    assert trees.walk(late, ["/opt"]).environments == []
    assert "stopped after 0" in late.warnings[0]["reason"]


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"/run/systemd/container": "lxc\n"}, "lxc"),
        ({"/proc/1/environ": "PATH=/\0container=podman\0"}, "podman"),
        ({"/sys/class/dmi/id/sys_vendor": "QEMU\n"}, "kvm"),
        ({"/proc/cpuinfo": "flags\t: fpu hypervisor vme\n"}, "unknown_vm"),
        ({"/proc/cpuinfo": "flags\t: fpu vme\n"}, "none"),
        ({}, None),
    ],
)
def test_virtualization(tmp_path, files, kind):
    assert system.virtualization(plant(tmp_path, files)) == kind


@pytest.mark.parametrize(
    ("told", "said", "asked"), [("podman\n", "podman", []), ("somebody's\n", "lxc", [["systemd-detect-virt"]])]
)
def test_systemd_is_not_asked_for_what_it_wrote_down(monkeypatch, told, said, asked):
    calls = []
    monkeypatch.setattr(source, "read_file", lambda path, limit: told if path == "/run/systemd/container" else None)
    live = source.Source("/", lambda argv: (calls.append(argv), (0, "lxc\n"))[1])
    assert system.virtualization(live) == said
    assert calls == asked


def test_host_memory_and_limits(tmp_path):
    planted = plant(
        tmp_path,
        {
            "/etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n',
            "/proc/sys/kernel/hostname": "ct129\n",
            "/proc/sys/kernel/osrelease": "6.8.12-9-pve\n",
            "/proc/cpuinfo": "processor\t: 0\nmodel name\t: EPYC\nprocessor\t: 1\nmodel name\t: EPYC\n",
            "/proc/uptime": "123.45 1\n",
            "/proc/meminfo": "MemTotal:       2097152 kB\nMemAvailable:   1048576 kB\nHugePages_Total:      4\nHugepagesize:       2048 kB\n",
            "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "/sys/devices/system/node/node0/x": "",
            "/sys/devices/system/node/node1/x": "",
            "/proc/self/limits": "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n"
            "Max locked memory         8388608              unlimited            bytes\n",
            "/proc/sys/vm/max_map_count": "65530\n",
        },
    )
    host = system.collect_host(planted)
    assert (host["hostname"], host["kernel"], host["uptime_s"], host["numa_nodes"]) == ("ct129", "6.8.12-9-pve", 123, 2)
    assert host["os"] == {"id": "ubuntu", "version": "24.04", "name": "Ubuntu 24.04.3 LTS"}
    assert host["cpu"] == {"model": "EPYC", "count": 2}
    memory = system.collect_memory(planted)
    assert (memory["total_mib"], memory["available_mib"], memory["swap_total_mib"]) == (2048, 1024, None)
    assert (memory["hugepages"]["total"], memory["transparent_hugepages"]) == (4, "madvise")
    limits = system.collect_limits(planted)
    assert limits["nofile"] == {"soft": "1024", "hard": "524288"}
    assert limits["memlock"]["hard"] == "unlimited"
    assert (limits["nproc"], limits["vm.max_map_count"], limits["fs.nr_open"]) == (None, 65530, None)


def test_disks_of_a_live_system_have_sizes_and_remote_ones_are_not_asked(monkeypatch):
    live = source.Source("/")
    table = "/dev/x / ext4 rw 0 0\nnas:/x /nowhere/nas nfs rw 0 0\nproc /proc proc rw 0 0\ntmpfs /run tmpfs rw 0 0\n/dev/x /bound ext4 rw 0 0\n"
    monkeypatch.setattr(live, "read", lambda path, limit=0: table)
    asked = []

    def statvfs(path):
        asked.append(path)
        return os.statvfs_result((4096, 4096, 1000 * 256, 600 * 256, 500 * 256, 0, 0, 0, 0, 255))

    monkeypatch.setattr(system.os, "statvfs", statvfs)
    disks = system.collect_disks(live)
    assert [(disk["mount"], disk["size_mib"], disk["free_mib"]) for disk in disks] == [
        ("/", 1000, 500),
        ("/nowhere/nas", None, None),
    ]
    assert asked == ["/"]
    assert live.warnings == [{"field": "disks./nowhere/nas", "reason": "nfs is remote and was not asked"}]


def test_mount_points_with_blanks():
    assert system.mounts("/dev/a /my\\040disk ext4 rw 0 0\n")[0]["mount"] == "/my disk"


def test_reboot_required(tmp_path):
    assert system.collect_reboot(plant(tmp_path, {})) == {"required": False, "packages": []}
    planted = plant(tmp_path, {"/run/reboot-required": "", "/run/reboot-required.pkgs": "linux-image\nlibc6\nlibc6\n"})
    assert system.collect_reboot(planted) == {"required": True, "packages": ["libc6", "linux-image"]}


ON = 'APT::Periodic::Unattended-Upgrade "1";\n'


@pytest.mark.parametrize(
    ("conf", "enabled", "excluded"),
    [
        (ON, True, False),
        ('APT::Periodic::Unattended-Upgrade "0";\n', False, False),
        (ON + 'Unattended-Upgrade::Package-Blacklist { "libnvidia-"; "nvidia-"; };\n', True, True),
        (ON + 'Unattended-Upgrade::Package-Blacklist {\n// "nvidia-";\n "vim";\n};\n', True, False),
        (ON + 'Unattended-Upgrade::Package-Blacklist:: "(lib)?nvidia-.*";\n', True, True),
        ("", False, False),
    ],
)
def test_unattended_upgrades(tmp_path, conf, enabled, excluded):
    planted = plant(tmp_path, {"/usr/bin/unattended-upgrade": "", "/etc/apt/apt.conf.d/50x": conf})
    found = system.collect_upgrades(planted)
    assert (found["tool"], found["enabled"], found["driver_excluded"]) == ("unattended-upgrades", enabled, excluded)


def test_dnf_automatic(tmp_path):
    planted = plant(
        tmp_path,
        {"/etc/dnf/automatic.conf": "[commands]\napply_updates = yes\n", "/etc/dnf/dnf.conf": "exclude=nvidia*\n"},
    )
    assert system.collect_upgrades(planted) == {"tool": "dnf-automatic", "enabled": True, "driver_excluded": True}


def test_toolkits_are_named_once(tmp_path):
    planted = plant(
        tmp_path,
        {
            "/usr/local/cuda-13.0/version.json": {"cuda": {"name": "CUDA SDK", "version": "13.0.2"}},
            "/usr/local/cuda-13.0/bin/nvcc": "",
            "/usr/local/cuda-12.8/lib64/x": "",
            "/usr/local/cuda": ("->", "cuda-13.0"),
        },
    )
    assert system.collect_toolkits(planted) == [
        {"path": "/usr/local/cuda-12.8", "version": "12.8", "nvcc": False},
        {"path": "/usr/local/cuda-13.0", "version": "13.0.2", "nvcc": True},
    ]


def test_guests_of_a_proxmox_host(tmp_path):
    planted = plant(
        tmp_path,
        {
            "/etc/pve/lxc/129.conf": "hostname: ct129\ndev0: /dev/nvidia0,gid=44\nlxc.mount.entry: /dev/nvidia1 dev/nvidia1 none bind\n"
            "dev2: /dev/nvidiactl\n[snap]\ndev3: /dev/nvidia7\n",
            "/etc/pve/lxc/130.conf": "hostname: mail\n",
            "/etc/pve/qemu-server/140.conf": "name: vm140\nhostpci0: 0000:01:00,pcie=1\n",
            "/sys/fs/cgroup/lxc/129/cgroup.procs": "",
            "/run/qemu-server/140.pid": "1",
        },
    )
    assert guests.collect_guests(planted) == [
        {"kind": "lxc", "id": "129", "name": "ct129", "running": True, "gpus": ["nvidia0", "nvidia1"]},
        {"kind": "lxc", "id": "130", "name": "mail", "running": False, "gpus": []},
        {"kind": "qemu", "id": "140", "name": "vm140", "running": True, "gpus": ["0000:01:00"]},
    ]


def test_time_skew_is_against_the_control_node(monkeypatch):
    live = source.Source("/")
    monkeypatch.setattr(system.time, "time", lambda: 1000.0)
    assert system.collect_time(live, 940.0)["skew_s"] == 60.0
    assert system.collect_time(live, None)["skew_s"] is None


def test_shared_memory_files_by_size(tmp_path):
    planted = plant(
        tmp_path, {"/dev/shm/small": b"x", "/dev/shm/nccl-1": b"x" * (2 << 20), "/dev/shm/model/config.json": "{}"}
    )
    assert [entry["name"] for entry in processes.shared_memory(planted)] == ["nccl-1", "small"]


def test_everything_on_an_empty_root_is_an_answer(tmp_path):
    survey = collect.collect(plant(tmp_path, {}))
    assert (survey["schema"], survey["processes"], survey["services"], survey["warnings"]) == (1, [], [], [])


def test_an_environment_behind_a_link_is_told_once(tmp_path):
    planted = plant(
        tmp_path,
        {
            "/opt/releases/1/pyvenv.cfg": "version = 3.12.1\n",
            "/srv/current": ("->", str(tmp_path / "opt/releases/1")),
            **process(10, ["/srv/current/bin/python", "-m", "sglang.launch_server"]),
        },
    )
    survey = collect.collect(planted)
    assert survey["processes"][0]["environment"] == "/srv/current"
    assert [environment["path"] for environment in survey["environments"]] == ["/opt/releases/1"]


def test_one_broken_part_costs_only_itself(tmp_path, monkeypatch):
    def broken(_source):
        raise OSError("I/O error")

    monkeypatch.setattr(system, "collect_memory", broken)
    survey = collect.collect(plant(tmp_path, {"/run/reboot-required": ""}))
    assert survey["memory"] == {}
    assert survey["reboot"]["required"] is True
    assert survey["warnings"] == [{"field": "memory", "reason": "OSError: I/O error"}]


def test_a_pipe_in_the_way_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert source.Source(str(tmp_path)).read("/pipe") == ""
