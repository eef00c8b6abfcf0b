# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The codes: what each means, what cures it, what must not be done, and which outranks which. Data only.

Codes are a stable interface. Causes refine a code and may grow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Which evidence outranks which: a finding of an earlier tier is the primary one. Within a tier the earliest line wins.
TIERS = (
    "play",  # a play's own output: the provisioning step that failed
    "spawn",  # systemd could not run the program at all, so nothing else can have stopped it
    "host",  # kernel log, NVML state, OOM killer: faults below the engine
    "specific",  # the engine, a library or a configuration names the cause
    "subsystem",  # NCCL or CUDA failed without saying why
    "capture",  # graph capture failed: an echo where anything above matched
    "stall",  # nothing moves
    "exception",  # an exception or a native crash that nothing above explains
    "systemd",  # what systemd did to the unit: context unless nothing else is known
    "service",  # it runs, but does not do its work
    "residue",  # markers without detail
    "benign",  # looks odd, is fine
)
# Codes that say only that something failed. Less evidence may turn a specific code into one of these, never into another.
GENERIC = frozenset(
    {
        "unknown",
        "engine_exception",
        "killed_by_signal",
        "start_limit_hit",
        "nccl_unhandled_system_error",
        "nccl_unhandled_cuda_error",
        "cuda_graph_capture_failed",
        "start_timeout",
    }
)
# What the engine says before it is ready did not stop it, and is no reason for what happens later; except of these, which a
# server is ready in spite of.
NOT_REFUTED_BY_READINESS = frozenset({"draft_config_invalid", "draft_target_mismatch", "gpu_hardware_fault"})


@dataclass(frozen=True)
class Code:
    """What is said about one code; C(causes) overrides the remedy."""

    meaning: str
    remedy: str
    must_not: tuple[str, ...] = ()
    causes: dict[str, str] = field(default_factory=dict)
    # Whether a lower profile (less parallelism, plainer decoding) can get around the fault.
    lower_profile_helps: bool = False


CODES: dict[str, Code] = {
    "driver_library_mismatch": Code(
        "The user-space driver libraries and the loaded kernel module have different full versions.",
        "Bring both to one full version: reboot into the module on disk, or align the user space with the loaded module.",
        (
            "reinstall or downgrade packages only because two strings differ",
            "unload modules while processes use the GPU",
        ),
        {
            "reboot_pending": "Drain the host and reboot (or reload the modules when no process uses them); then hold the"
            " driver packages.",
            "module_not_rebuilt": "Build the module of the user-space version for the running kernel (headers, dkms), then"
            " reload or reboot.",
            "mixed_install": "Keep one source and one branch, remove the other, and install the user space of exactly the"
            " module's version; a plain reboot does not help.",
            "container_userspace": "Inside the guest install the user space of exactly the host's module version and no"
            " kernel package; or update the host.",
        },
    ),
    "driver_packages_mixed": Code(
        "Two branches, flavours or sources of the driver are installed or half configured.",
        "Choose one, purge the other, then run apt --fix-broken install; reboot only if the module changes.",
        ("force-overwrite files", "purge the package set that the running module belongs to"),
    ),
    "driver_module_missing": Code(
        "There is no nvidia module for the running kernel.",
        "Install the headers of the running kernel, build the module with dkms, then modprobe nvidia.",
        ("reinstall the whole driver",),
        {
            "not_built": "Install linux-headers for the running kernel, run dkms autoinstall, then modprobe nvidia; no"
            " reboot is needed when nothing was loaded.",
            "dkms_tree_broken": "Remove the stale dkms tree of the old version, then run dkms autoinstall and modprobe.",
            "secure_boot": "Enrol the key that signs the module (mokutil), or install the distribution's signed module.",
        },
    ),
    "driver_open_module_required": Code(
        "This GPU generation needs the open kernel module; the proprietary one is loaded.",
        "Replace the kernel package with the -open flavour of the same version, then reboot.",
        ("upgrade the branch when only the flavour is wrong",),
    ),
    "gpu_not_found": Code(
        "The module is loaded but no device comes up.",
        "Check firmware settings (Above 4G decoding, Resizable BAR), power and PCIe link; read the kernel log.",
        ("recommend the open module where it is already loaded",),
    ),
    "gpu_hardware_fault": Code(
        "A GPU is lost, fell off the bus, needs a reset, or reported a fatal Xid.",
        "Drain the host, reset the GPU or power-cycle, look at power, riser and firmware; stop restarting the unit.",
        ("restart the unit in a loop", "change driver packages"),
        {
            "fallen_off_bus": "Drain and power-cycle the host; check power, riser and firmware.",
            "gpu_lost": "Reboot the host; treat it as hardware if it recurs.",
            "reset_required": "Drain the GPU, stop its processes, reset it or reboot; treat it as hardware if it recurs.",
        },
    ),
    "fabric_manager_fault": Code(
        "Fabric Manager does not match the driver, does not run, or is not needed here.",
        "Install and start nvidia-fabricmanager of exactly the driver's version, then restart the engine.",
        ("accept the same branch as a match", "reinstall the driver"),
        {
            "version_mismatch": "Bring driver and Fabric Manager to the identical full version, from one repository.",
            "not_running": "Install and start nvidia-fabricmanager of exactly the driver's version (boards with NVLink 5 need"
            " nvlsm beside it), then restart the engine.",
            "not_applicable": "Disable the Fabric Manager unit on hosts without NVSwitch; it is harmless otherwise.",
        },
    ),
    "container_gpu_unavailable": Code(
        "The host's GPU is fine, but the container lost it or cannot get it.",
        "Recreate the container; regenerate the CDI specification after a driver change.",
        ("reboot the host", "change the host's driver"),
        {
            "device_cgroup_revoked": "Recreate the container; use CDI or /dev/char links, so that a daemon-reload cannot"
            " revoke its devices.",
            "stale_driver_mounts": "Regenerate the CDI specification (nvidia-ctk cdi generate) and recreate the container.",
        },
    ),
    "cuda_driver_too_old": Code(
        "The CUDA runtime of the wheels is newer than the driver supports.",
        "Install a newer driver, or wheels built for the driver's CUDA level.",
    ),
    "cuda_compat_conflict": Code(
        "Another libcuda (compat package, stub, preload) is found before the driver's.",
        "Let the driver's own libcuda come first: remove the compat entry from the library path or ld.so.conf.",
        ("downgrade the driver",),
        {"stub_or_preload": "Remove the stub or preloaded libcuda from LD_LIBRARY_PATH, LD_PRELOAD or ld.so.conf."},
    ),
    "gpu_arch_unsupported": Code(
        "Kernels or ptxas do not know this GPU's compute capability.",
        "Install wheels built for this architecture.",
        ("change the driver",),
        {
            "wheel": "Install torch and kernel wheels that contain this architecture.",
            "ptxas": "Point TRITON_PTXAS_PATH (or CUDA_HOME) in the unit's environment at a toolkit that knows it.",
        },
    ),
    "abi_undefined_symbol": Code(
        "A shared library misses a symbol: the set of torch, kernels and NCCL is inconsistent.",
        "Recreate the virtual environment from one lock file.",
        ("change the driver",),
        {"duplicate_nccl": "Remove the NCCL wheel of the other CUDA generation and reinstall the right one."},
    ),
    "jit_tool_missing": Code(
        "A tool for run-time compilation (ninja, nvcc, a compiler) is not found.",
        "Put the virtual environment's bin directory first on the unit's PATH, and install the missing tool.",
        (),
        {
            "ninja": "Put the virtual environment's bin directory first on the unit's PATH (and ninja in it).",
            "nvcc": "Install the CUDA toolkit of the wheels' CUDA generation and set CUDA_HOME in the unit.",
            "compiler": "Install a C/C++ compiler and the Python headers on the host.",
        },
    ),
    "nccl_unhandled_system_error": Code(
        "NCCL reported a system error without a more specific cause.",
        "Start once with NCCL_DEBUG=INFO and read the WARN line; check NCCL_SOCKET_IFNAME, /dev/shm and limits.",
        ("guess a cause without a line that shows it",),
        {"shm_permission": "Restore mode 1777 on /dev/shm."},
    ),
    "nccl_unhandled_cuda_error": Code(
        "NCCL reported a CUDA error without a more specific cause.",
        "Start once with NCCL_DEBUG=INFO; check the driver/NCCL pair, NCCL_CUMEM_ENABLE=0 and P2P settings.",
        lower_profile_helps=True,
    ),
    "shm_too_small": Code(
        "/dev/shm is full or too small.",
        "Enlarge /dev/shm (mount option size=, or --shm-size for a container) and clear stale segments.",
        ("conclude an OOM kill from status 9/KILL",),
    ),
    "ulimit_too_low": Code(
        "A resource limit of the unit is too low.",
        "Raise the limit in the unit; limits.conf does not apply to services.",
        ("raise memory because of 'Cannot allocate memory'",),
        {
            "memlock": "Set LimitMEMLOCK=infinity in the unit.",
            "nofile": "Set LimitNOFILE= in the unit to at least 65536.",
            "address_space": "Remove LimitAS= from the unit.",
            "nproc": "Raise TasksMax= and LimitNPROC= in the unit.",
        },
    ),
    "kv_cache_oom": Code(
        "Weights leave no room for the KV cache.",
        "Raise --mem-fraction-static step by step; else shorten the context, lower --max-running-requests, use a smaller or"
        " quantised model or more GPUs. The drafter's weights and cache count too.",
        ("lower the memory fraction",),
        lower_profile_helps=True,
    ),
    "gpu_oom": Code(
        "CUDA ran out of memory outside the sizing of the KV cache.",
        "Free the GPU, lower --mem-fraction-static or the batch sizes.",
        (),
        {
            "graph_capture": "Lower --mem-fraction-static or --cuda-graph-max-bs-decode.",
            "nccl": "Leave memory for NCCL: free the GPU, lower --mem-fraction-static.",
            "load": "Free the GPU, use more GPUs, or a smaller or quantised model.",
        },
        lower_profile_helps=True,
    ),
    "host_oom_killed": Code(
        "The OOM killer took a process of the unit.",
        "Give it more memory (or raise MemoryMax), load with fewer threads, use a smaller model; stop the restart loop.",
        ("keep restarting",),
        {
            "cgroup": "Raise MemoryMax= of the unit (or its slice), or use less host memory.",
            "global": "Free host memory or add some; load with fewer threads; stop the restart loop.",
        },
    ),
    "cuda_graph_capture_failed": Code(
        "Graph capture failed for a reason other than memory.",
        "Try --disable-custom-all-reduce, then a smaller --cuda-graph-max-bs-decode, last --disable-cuda-graph.",
        lower_profile_helps=True,
    ),
    "engine_stalled": Code(
        "Nothing moves: start-up or a forward pass hangs.",
        "Look at GPU and Xid state, and at the stage reached.",
        ("raise the watchdog's limit instead of finding the hang",),
        {
            "nccl_init": "Test NCCL_P2P_DISABLE=1; then fix IOMMU/ACS, or use --disable-custom-all-reduce.",
            "forward": "Look at GPU and Xid state and at NCCL; install py-spy for stacks.",
            "graph_capture": "Run again with --disable-custom-all-reduce, then without graphs.",
        },
        lower_profile_helps=True,
    ),
    "model_path_missing": Code(
        "The target's or drafter's files are not found, or the hub is not reachable.",
        "Stage the files on the host and use the local path; check mount and ownership.",
        ("try to download at service start",),
        {
            "path": "Fix path, mount or ownership; config.json must be readable by the service user.",
            "draft": "Complete the drafter's directory (config.json and weights).",
            "hub_unreachable": "Stage the model and use the local path, or fix the proxy.",
            "hub_offline": "Stage the model before going offline; HF_HUB_OFFLINE forbids the download.",
        },
    ),
    "draft_config_invalid": Code(
        "The drafter's configuration lacks or contradicts required fields.",
        "Restore the drafter's published config.json.",
        ("edit the drafter's configuration by hand", "accept the engine's guess"),
    ),
    "draft_target_mismatch": Code(
        "Drafter and target are not a pair.",
        "Use the drafter trained for exactly this target.",
        ("edit the drafter's configuration to make it load",),
        {
            "quantized_lm_head": "Use an engine build that supports a quantised head, or a target that keeps lm_head in BF16."
        },
        lower_profile_helps=True,
    ),
    "draft_arch_unsupported": Code(
        "The engine does not register the drafter's architecture.",
        "Use an engine build that registers it, or another drafter.",
        ("rename the architecture in config.json",),
        lower_profile_helps=True,
    ),
    "server_args_invalid": Code(
        "Server arguments are unknown, missing or incompatible.",
        "Correct the arguments; the engine names the one at fault.",
        (),
        {
            "unknown_option": "Remove the option or install the engine version that has it.",
            "missing_option": "Set the option that the message names.",
            "incompatible": "Drop one of the options that exclude each other.",
            "attention_backend": "Choose a backend that supports this combination (BF16 KV cache, non-causal drafting).",
        },
        lower_profile_helps=True,
    ),
    "spec_acceptance_collapsed": Code(
        "Speculation runs but accepts almost nothing.",
        "Restart; verify the pair with a known prompt and a BF16 target; until then disable speculation.",
        ("judge from a single line", "call it healthy because /health is 200"),
        {"simulated": "Remove the variable that simulates acceptance from the unit's environment."},
        lower_profile_helps=True,
    ),
    "port_in_use": Code(
        "The listen or rendezvous port is taken.",
        "Use another port, or stop the holder yourself.",
        ("kill the holder automatically", "believe a probe that the old process answers"),
    ),
    "exec_missing": Code(
        "systemd could not start the process.",
        "Create what is missing.",
        (),
        {
            "binary": "Create the virtual environment (or fix ExecStart); recreate it after a Python upgrade.",
            "interpreter": "Recreate the virtual environment: its interpreter is gone.",
            "permission": "Make the program executable for the service user, and its file system not noexec.",
            "workdir": "Create the working directory, or fix WorkingDirectory=.",
            "user": "Create the account or group, or order the unit after the directory service.",
            "environment": "Create the file that EnvironmentFile= names, or mark it optional with a leading dash.",
            "credentials": "Restore the file that LoadCredential= names. In a container whose / is mounted private, run "
            "`mount --make-rshared /` in it and start the unit again.",
        },
    ),
    "start_timeout": Code(
        "systemd gave up while the start was progressing.",
        "Raise TimeoutStartSec to the measured load time with a margin.",
    ),
    "start_limit_hit": Code(
        "The restart limit was reached and no earlier cause is in the evidence.",
        "Read the journal of the first failing run; fix it, then systemctl reset-failed and start.",
        ("treat the limit as the root cause",),
    ),
    "killed_by_signal": Code(
        "A process died by a signal without an engine error and without OOM evidence.",
        "Read the core dump; look for an external killer; collect the kernel log of the right boot.",
        ("assume the OOM killer without its line",),
        {"native_crash": "Check the library named by the crashing frame and its driver pair; keep the core dump."},
    ),
    "engine_exception": Code(
        "The engine failed with an exception that no other code explains.",
        "Read the exception of the first failing rank.",
        ("call it a success because of exit status 0",),
        {
            "no_detail": "Fetch a longer journal window (all ranks) and search upward for the first exception.",
        },
    ),
    "ready_but_not_serving": Code(
        "Port or health answer, but real requests are not answered.",
        "Gate readiness on a real one-token generation; restart cleanly if it hangs.",
        ("declare it ready on the first 200",),
        {
            "warmup": "Gate readiness on a real one-token generation; do not restart during warm-up.",
            "hang": "Collect stacks and GPU state, then restart cleanly.",
        },
    ),
    "no_fault": Code(
        "Looks odd, is fine.",
        "None.",
        (),
        {"requested_stop": "None; set SuccessExitStatus=SIGKILL if a clean state is wanted."},
    ),
    "unknown": Code("The evidence does not name a cause.", "Collect what is listed as missing."),
    "apt_lock_held": Code(
        "The package lock is held.",
        "Wait and retry with a limit (DPkg::Lock::Timeout).",
        ("delete the lock file", "kill the holder"),
        {"own_child": "Wait for the package process that this play itself started; serialise the tasks."},
    ),
    "apt_held_broken": Code(
        "The package manager cannot resolve the request.",
        "Name the transition explicitly, lift holds in the same transaction, or pin one repository; check candidates before anything is"
        " removed.",
        ("remove the working driver first",),
        {
            "branch_conflict": "Remove the old branch and install the new one in one transaction.",
            "package_unavailable": "Check candidates first (apt-cache policy) and add the repository that has the package.",
        },
    ),
    "venv_unavailable": Code(
        "A virtual environment cannot be made or used.",
        "Install python3-venv of the same minor version, remove the half-made environment, create it again.",
        ("delete EXTERNALLY-MANAGED", "use --break-system-packages"),
        {
            "pep668": "Install into a virtual environment.",
        },
    ),
    "unit_stale": Code(
        "The unit changed on disk but was not reloaded or restarted.",
        "Reload systemd before the restart; beware that it can cut the GPU access of running containers.",
    ),
    "check_mode_missing_unit": Code(
        "A dry run on a clean host meets a unit that this play would create.",
        "In check mode tolerate service tasks whose unit would be created; report changed.",
        ("fail a dry run on a clean host",),
    ),
    "reboot_required": Code(
        "The state on disk is right, a reboot is pending.",
        "Report it as a fact and stop cleanly; reboot only where opted in.",
        ("reboot silently", "call the installation failed"),
    ),
    "unrequested_upgrade": Code(
        "A further run moved the driver's version.",
        "Pin stream and version; install only when absent.",
    ),
}


def remedy(code: str, cause: str | None) -> str:
    """What cures it, in one line."""
    entry = CODES[code]
    return entry.causes.get(cause or "", entry.remedy)
