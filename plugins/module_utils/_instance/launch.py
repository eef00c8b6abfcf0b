# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line and the environment of an instance, as pure functions. Private to this collection.

Both engines are described here and nowhere else: units, the benchmark and the checks against an engine's own argument parser all
take their command line from :func:`argv`.
"""

from __future__ import annotations

import typing as t

ALGORITHMS = ("ddtree", "dflash", "none")
BACKENDS = ("sglang", "transformers")
# The link through which an instance runs from its release.
RELEASE_LINK = "/var/lib/dflash/instances/{name}/release"
# Nodes of the draft tree without the root, where the instance names none.
DEFAULT_BUDGET = 16
# The linear chain needs block_size rows; used for the budget check when the drafter's block size is not known yet.
DEFAULT_BLOCK_SIZE = 16


class LaunchError(ValueError):
    """An instance that cannot be started as described; the text names the value, the reason and the way out."""


def python_path(name: str) -> str:
    """Interpreter of the release that instance ``name`` runs from (through its own link)."""
    return RELEASE_LINK.format(name=name) + "/venv/bin/python"


def served_name(instance: t.Mapping[str, t.Any]) -> str:
    """Model name that clients ask for: ``served_model_name``, else the instance's own name."""
    return str(instance.get("served_model_name") or instance["name"])


def _text(value: t.Any) -> str:
    return "true" if value is True else "false" if value is False else str(value)


def _extra(args: t.Any) -> list[str]:
    """``args`` of an instance: a list of words, or a mapping of option (without dashes) to value.

    In a mapping ``true`` gives the bare option, ``false`` and null leave it out, a list gives one option with several words.
    """
    if not args:
        return []
    if isinstance(args, t.Mapping):
        words: list[str] = []
        for option, value in args.items():
            if value is None or value is False:
                continue
            words.append("--" + str(option).lstrip("-").replace("_", "-"))
            if value is True:
                continue
            words.extend(_text(item) for item in (value if isinstance(value, (list, tuple)) else [value]))
        return words
    if isinstance(args, (list, tuple)):
        return [_text(item) for item in args]
    raise LaunchError(
        f"args of an instance must be a list of words or a mapping of options, not {type(args).__name__}: {args!r}"
    )


def _transformers(instance: t.Mapping[str, t.Any], model: str, drafter: str | None, host: str) -> list[str]:
    words = ["-m", "ddtree.server", "--model", model, "--algorithm", instance["algorithm"]]
    if instance["algorithm"] != "none":
        words += ["--drafter", t.cast(str, drafter)]
    if instance["algorithm"] == "ddtree":
        words += ["--budget", str(instance.get("budget") or DEFAULT_BUDGET)]
    if instance.get("block_size") and instance["algorithm"] != "none":
        words += ["--block-size", str(instance["block_size"])]
    if not instance.get("gpus"):
        words += ["--device", "cpu"]
    return [*words, "--host", host, "--port", str(instance["port"]), "--served-model-name", served_name(instance)]


def _sglang(instance: t.Mapping[str, t.Any], model: str, drafter: str | None, host: str) -> list[str]:
    # SGLang's argument names; ddtree.sglang.launch hands every option on to sglang.launch_server.
    words = ["-m", "ddtree.sglang.launch", "--model-path", model]
    if instance["algorithm"] != "none":
        words += [
            "--speculative-algorithm",
            instance["algorithm"].upper(),
            "--speculative-draft-model-path",
            t.cast(str, drafter),
        ]
        if instance.get("block_size"):
            words += ["--speculative-dflash-block-size", str(instance["block_size"])]
    if instance["algorithm"] == "ddtree":
        words += ["--speculative-ddtree-budget", str(instance.get("budget") or DEFAULT_BUDGET)]
    words += ["--tp-size", str(instance.get("tp_size") or 1)]
    if instance.get("mem_fraction") is not None:
        words += ["--mem-fraction-static", str(instance["mem_fraction"])]
    return [
        *words,
        "--enable-metrics",
        "--host",
        host,
        "--port",
        str(instance["port"]),
        "--served-model-name",
        served_name(instance),
    ]


def argv(
    instance: t.Mapping[str, t.Any],
    model: str,
    drafter: str | None = None,
    host: str = "0.0.0.0",
    python: str | None = None,
) -> list[str]:
    """Words of the command that serves ``instance``.

    :param instance: a planned instance (``name, engine_backend, algorithm, port, gpus, tp_size, budget, block_size, mem_fraction, args``).
    :param model: directory of the target on the host; ``drafter`` likewise, needed unless the algorithm is ``none``.
    :param host: address to listen on.
    :param python: interpreter; default is the one of the instance's release.
    :raises LaunchError: unknown backend or algorithm, a drafter that is missing, or ``args`` of a wrong type.
    """
    backend, algorithm = instance.get("engine_backend"), instance.get("algorithm")
    if backend not in BACKENDS:
        raise LaunchError(f"engine_backend {backend!r} is not known; use one of: {', '.join(BACKENDS)}")
    if algorithm not in ALGORITHMS:
        raise LaunchError(f"algorithm {algorithm!r} is not known; use one of: {', '.join(ALGORITHMS)}")
    if algorithm != "none" and not drafter:
        raise LaunchError(
            f"algorithm {algorithm!r} of instance {instance['name']!r} needs a drafter; name one, or use algorithm none"
        )
    build = _sglang if backend == "sglang" else _transformers
    interpreter = python or python_path(str(instance["name"]))
    return [interpreter, *build(instance, model, drafter, host), *_extra(instance.get("args"))]


def environment(instance: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Environment of the instance's unit, without secrets: GPUs by UUID, cache folders, offline flags, then ``env`` of the instance.

    ``%S`` and ``%C`` are systemd's state and cache directories; systemd does not expand them in an EnvironmentFile, so the paths are
    written out. LD_LIBRARY_PATH is emptied: a leftover there is what makes a wheel load another wheel's CUDA libraries.
    """
    cache = f"/var/cache/dflash/{instance['name']}"
    values = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "HF_HUB_OFFLINE": "1",
        "LD_LIBRARY_PATH": "",
        # ninja comes with the release, nvcc with the toolkit; role engine checks the tools on exactly this path.
        "PATH": f"{RELEASE_LINK.format(name=instance['name'])}/venv/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "TVM_FFI_CACHE_DIR": f"{cache}/tvm-ffi",
        "XDG_CACHE_HOME": cache,
    }
    values.update({str(key): _text(value) for key, value in (instance.get("env") or {}).items()})
    # Last, so that nothing but the plan decides on the GPUs.
    values["CUDA_VISIBLE_DEVICES"] = ",".join(instance.get("gpus") or [])
    return values
