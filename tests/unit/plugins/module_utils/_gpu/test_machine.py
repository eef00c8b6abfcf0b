# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container kind, identity, processes, state and the host seam."""

from __future__ import annotations

import itertools
import os
import signal
import time

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import (
    container,
    identity,
    isolated,
    kernel,
    libraries,
    processes,
    state,
)
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host, Result


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({}, "none"),
        ({"/run/systemd/container": "lxc\n"}, "lxc"),
        ({"/run/systemd/container": "lxc-libvirt\n"}, "lxc"),
        ({"/proc/1/environ": "HOME=/\0container=podman\0"}, "podman"),
        ({"/run/.containerenv": ""}, "podman"),
        ({"/.dockerenv": ""}, "docker"),
        ({"/proc/1/cgroup": "0::/lxc/105/ns/init.scope\n"}, "lxc"),
        ({"/proc/1/cgroup": "0::/init.scope\n"}, "none"),
        ({"/proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n", "/.dockerenv": ""}, "wsl"),
    ],
)
def test_container_kind(make_root, files, kind):
    assert container.kind(make_root(files)) == kind


def host(machine="a", boot="x", uuids=("GPU-1",)):
    return {"machine_id": machine, "boot_id": boot, "gpu_uuids": list(uuids)}


@pytest.mark.parametrize(
    ("one", "other", "relation"),
    [
        (host(), host(), "alias"),
        (host(), host("b"), "host_and_guest"),
        (host(), host("b", "y"), "host_and_guest"),
        (host(), host("b", "x", ["GPU-2"]), "different"),
        (host(uuids=[]), host("b", uuids=[]), "different"),
        (host(None), host(None, uuids=["GPU-2"]), "different"),
        (host(), host(uuids=[]), "alias"),
    ],
)
def test_relation(one, other, relation):
    assert {identity.relation(*pair) for pair in itertools.permutations((one, other))} == {relation}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["/usr/bin/ollama", "serve", "--key", "hunter2"], "/usr/bin/ollama"),
        (["python3", "-m", "sglang.launch_server", "--api-key", "hunter2"], "python3 -m sglang.launch_server"),
        (["/usr/bin/python3.11", "-u", "train.py", "--token=hunter2"], "/usr/bin/python3.11 train.py"),
        (["python3", "-c", "print('hunter2')"], "python3 -c"),
        (["sglang::scheduler_TP0 hunter2"], "sglang::scheduler_TP0"),
        (["python3"], "python3"),
        ([""], None),
        ([], None),
    ],
)
def test_a_command_is_shown_without_arguments(arguments, shown):
    assert processes.command(arguments) == shown


@pytest.mark.parametrize(
    ("group", "unit", "guest"),
    [
        ("/system.slice/ollama.service", "ollama.service", None),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope", "x.scope", None),
        ("/lxc/105/ns/system.slice/train.service", "train.service", {"kind": "lxc", "id": "105"}),
        ("/lxc.payload.web/init.scope", "init.scope", {"kind": "lxc", "id": "web"}),
        (
            "/system.slice/docker-0123456789abcdef.scope",
            "docker-0123456789abcdef.scope",
            {"kind": "docker", "id": "0123456789abcdef"},
        ),
        (
            "/machine.slice/libpod-0123456789abcdef.scope/container",
            "libpod-0123456789abcdef.scope",
            {"kind": "podman", "id": "0123456789abcdef"},
        ),
        ("/", None, None),
        (None, None, None),
    ],
)
def test_unit_and_guest_of_a_control_group(group, unit, guest):
    assert processes.unit(group) == unit
    assert processes.guest(group) == guest


def test_control_group_of_both_hierarchies():
    assert processes.cgroup("0::/system.slice/a.service\n") == "/system.slice/a.service"
    assert processes.cgroup("9:name=systemd:/system.slice/a.service\n0::/\n") == "/system.slice/a.service"
    assert processes.cgroup("3:cpu:/x\n") is None
    assert processes.cgroup(None) is None


def test_a_process_of_another_root(make_root):
    files = {
        "/proc/42/status": "Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\n",
        "/proc/42/cmdline": "python3\0train.py\0--secret\0hunter2\0",
        "/proc/42/cgroup": "0::/lxc/105/ns/system.slice/train.service\n",
        "/etc/passwd": "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n",
    }
    found = processes.describe(make_root(files, {"/proc/42/exe": "/opt/venv/bin/python3"}), 42)
    assert found == {
        "user": "ada",
        "command": "python3 train.py",
        "executable": "/opt/venv/bin/python3",
        "executable_missing": True,
        "unit": "train.service",
        "cgroup": "/lxc/105/ns/system.slice/train.service",
        "guest": {"kind": "lxc", "id": "105"},
    }


def test_a_process_that_cannot_be_seen_is_unknown(make_root):
    assert set(processes.describe(make_root({"/etc/passwd": ""}), 42).values()) == {None}


def test_holders_are_those_with_a_device_file_open(make_root):
    status = "Name:\tx\nUid:\t0\t0\t0\t0\n"
    links = {
        "/proc/7/fd/3": "/dev/nvidia0",
        "/proc/7/fd/4": "/dev/nvidiactl",
        "/proc/8/fd/3": "/dev/null",
    }
    found = processes.holders(make_root({"/proc/7/status": status, "/proc/8/status": status}, links))
    assert [(holder["pid"], holder["devices"]) for holder in found] == [(7, ["/dev/nvidia0", "/dev/nvidiactl"])]


BASE = {
    "module_version": "580.126.09",
    "module_loaded": True,
    "user_space_version": "580.126.09",
    "library_found": True,
    "nvml_asked": True,
    "nvml_error": None,
    "nvml_code": None,
    "gpus_seen": True,
    "container": "none",
    "live": True,
}
NO_MODULE = {"module_version": None, "module_loaded": False}
NO_LIBRARY = {"user_space_version": None, "library_found": False}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "healthy"),
        ({"module_version": None}, "healthy"),
        ({"user_space_version": "580.126"}, "healthy"),
        ({"user_space_version": "580.159.03", "nvml_error": "x", "nvml_code": 18}, "mismatch"),
        ({"user_space_version": "580.159.03"}, "mismatch"),
        ({"user_space_version": None, "nvml_error": "x", "nvml_code": 18}, "mismatch"),
        ({**NO_LIBRARY, "nvml_error": "x", "nvml_code": 12}, "module_only"),
        ({**NO_MODULE, "nvml_error": "x", "nvml_code": 9}, "library_only"),
        ({**NO_MODULE, **NO_LIBRARY, "nvml_asked": False, "nvml_error": "x"}, "no_driver"),
        ({**NO_MODULE, **NO_LIBRARY, "nvml_asked": False, "nvml_error": "x", "gpus_seen": False}, "no_gpu"),
        ({"nvml_error": "x", "nvml_code": 999}, "unknown"),
        ({"nvml_asked": False, "nvml_error": "x"}, "unknown"),
        ({"nvml_asked": False, "nvml_error": "x", "live": False}, "healthy"),
        ({"container": "wsl", "module_version": "555.85", "user_space_version": "550.163.01"}, "healthy"),
        ({"container": "wsl", **NO_MODULE, "nvml_error": "x", "nvml_code": 9}, "unknown"),
    ],
)
def test_state(change, expected):
    assert state.decide({**BASE, **change})[0] == expected


def test_every_combination_has_a_state_and_unsound_ones_a_reason():
    versions = (None, "580.126.09", "580.159.03")
    flags = (True, False)
    known = {"no_gpu", "no_driver", "module_only", "library_only", "mismatch", "healthy", "unknown"}
    for module, library, asked, error, seen, kind in itertools.product(
        versions, versions, flags, (None, 9, 18, 999), flags, ("none", "lxc", "wsl")
    ):
        found, reason = state.decide(
            {
                **BASE,
                "module_version": module,
                "module_loaded": bool(module),
                "user_space_version": library,
                "library_found": bool(library),
                "nvml_asked": asked,
                "nvml_error": None if error is None and asked else "failed",
                "nvml_code": error,
                "gpus_seen": seen,
                "container": kind,
            }
        )
        assert found in known
        assert reason or found in ("healthy", "no_gpu")
        if found == "healthy":
            assert asked and error is None and (kind == "wsl" or None in (module, library) or module == library)


@pytest.mark.parametrize(
    ("module", "disk", "kind", "required"),
    [
        ("580.126.09", "580.159.03", "none", True),
        ("580.126.09", "580.126.09", "none", False),
        ("580.126.09", None, "none", None),
        (None, "580.126.09", "none", None),
        ("580.126.09", "580.159.03", "lxc", None),
    ],
)
def test_reboot_required(module, disk, kind, required):
    assert state.reboot_required(module, disk, kind) is required


def test_a_native_call_that_hangs_dies_or_raises_harms_nobody():
    assert isolated.call(lambda: {"a": 1}, 5) == ({"a": 1}, None)
    assert isolated.call(lambda: time.sleep(60), 0.2) == (None, "no answer within 0.2 s")
    assert isolated.call(lambda: os.kill(os.getpid(), signal.SIGKILL), 5) == (None, "ended by signal KILL")
    assert isolated.call(lambda: 1 / 0, 5) == (None, "ZeroDivisionError: division by zero")
    assert isolated.call(object, 5)[0] is None
    assert isolated.call(lambda: "x" * 300000, 5)[0] == "x" * 300000


@pytest.mark.parametrize(
    ("cache", "asked"),
    [("libc.so.6\0/lib/libc.so.6\0", 0), ("libnvidia-ml.so.1\0/opt/x/libnvidia-ml.so.1\0", 1), (None, 1)],
    ids=["without it", "with it", "unreadable"],
)
def test_ldconfig_is_asked_where_its_cache_may_know_the_library(monkeypatch, cache, asked):
    live, calls = Host("/"), []
    monkeypatch.setattr(live, "read", lambda path: cache if path == "/etc/ld.so.cache" else None)
    monkeypatch.setattr(live, "run", lambda argv: (calls.append(argv), Result(0, "", ""))[1])
    assert libraries.find(live, libraries.NVML, []) is None
    assert calls == [["ldconfig", "-p"]] * asked


def test_programs_have_a_time_limit_and_a_missing_one_is_no_error():
    live = Host("/", timeout=0.2)
    assert live.run(["sleep", "60"]).reason == "sleep: no answer within 0.2 s"
    assert live.run(["no-such-program"]).rc is None
    told = Host("/", timeout=20).run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (told.rc, told.out, told.err, told.reason) == (3, "out\n", "err\n", None)
    assert (live.has_program("sh"), live.has_program("no-such-program")) == (True, False)


def test_no_program_runs_below_another_root(tmp_path):
    answer = Host(str(tmp_path)).run(["touch", str(tmp_path / "made")])
    assert answer.rc is None and "not run" in answer.reason
    assert not (tmp_path / "made").exists()


def test_links_stay_inside_the_root(make_root):
    made = make_root({"/usr/lib/real/file": "x"}, {"/lib": "/usr/lib", "/usr/lib/link": "../../usr/lib/real"})
    assert made.realpath("/lib/link/file") == "/usr/lib/real/file"
    assert made.exists("/lib/link/file") and not made.exists("/lib/link/other")
    loop = make_root({}, {"/a": "b", "/b": "a"})
    assert loop.exists("/a") is False


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"/var/lib/dkms/nvidia/580.126.09/source/x": ""}, [("580.126.09", None, "added")]),
        ({"/var/lib/dkms/nvidia/580.126.09/6.1.0/x86_64/module/nvidia.ko": ""}, [("580.126.09", "6.1.0", "built")]),
        (
            {
                "/var/lib/dkms/nvidia/580.126.09/6.1.0/x86_64/module/nvidia.ko": "",
                "/lib/modules/6.1.0/updates/dkms/nvidia.ko": "version: 580.126.09\nlicense: NVIDIA\n",
            },
            [("580.126.09", "6.1.0", "installed")],
        ),
        ({"/var/lib/dkms/nvidia/kernel-6.1.0-x86_64/x": ""}, []),
        ({}, []),
    ],
)
def test_dkms_states(make_root, tree, expected):
    found = kernel.dkms(make_root(tree))
    assert [(entry["version"], entry["kernel"], entry["state"]) for entry in found] == expected


LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.595.71.05"


@pytest.mark.parametrize(
    ("points", "mounted"),
    [
        (["/", "/proc"], False),
        (["/", "/usr", "/usr/lib"], False),
        (["/", LIBRARY], True),
        (["/", "/usr/lib/x86_64-linux-gnu"], True),
        (["/", f"{LIBRARY}.old"], False),
        (None, None),
    ],
)
def test_whether_a_library_is_mounted(make_root, points, mounted):
    lines = [f"{20 + i} 1 8:1 / {point} rw,relatime - ext4 /dev/sda1 rw\n" for i, point in enumerate(points or [])]
    host = make_root({} if points is None else {"/proc/self/mountinfo": "".join(lines)})
    assert libraries.mounted(host, LIBRARY) is mounted


@pytest.mark.parametrize(
    ("boot", "image", "unchanged"),
    [(3600, -7200, True), (3600, 7200, False), (-3600, -7200, False), (-3600, 0, False), (3600, None, None)],
)
def test_whether_the_next_boot_loads_what_this_one_did(make_root, boot, image, unchanged):
    """Seconds from now of the boot and of the initramfs; the module is put there now."""
    kernel_name, module = "6.1.0-30-amd64", "/lib/modules/6.1.0-30-amd64/updates/dkms/nvidia.ko"
    files = {module: "", "/proc/stat": f"cpu 1 2 3\nbtime {int(time.time()) + boot}\n"}
    initramfs = f"/boot/initrd.img-{kernel_name}"
    host = make_root(files if image is None else {**files, initramfs: ""})
    if image is not None:
        os.utime(host.path(initramfs), (time.time() + image,) * 2)
    found, reason = kernel.boot_unchanged(host, kernel_name, module)
    assert found is unchanged
    assert (reason is None) == (unchanged is not None)
    assert kernel.boot_unchanged(make_root({"/proc/stat": "cpu 1 2 3\n"}), kernel_name, module)[0] is None
