# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual environments and source checkouts: versions from their metadata, nothing imported, git not needed."""

from __future__ import annotations

import json
import re
import typing as t

from .source import Source

#: Distributions whose versions decide whether an engine can run; names normalised as in PEP 503.
DISTRIBUTIONS = (
    r"torch|triton|sglang|sglang-kernel|sgl-kernel|sglang-router|flash-attn(?:-[34])?|flashinfer-(?:python|cubin|jit-cache)|"
    r"vllm|transformers|xformers|accelerate|deepspeed|inferlab-ddtree|nvidia-(?:nccl|cudnn)(?:-cu\d+)?|"
    r"nvidia-cuda-runtime(?:-cu\d+)?|nvidia-ml-py|safetensors"
)
#: Names in a checkout's path or remote that make it one of interest.
PROJECTS = r"sglang|vllm|ddtree|dflash|flash[-_]?attn|flash[-_]attention|flashinfer|transformers|pytorch|triton|TensorRT-LLM|llama\.cpp|train"


def describe_environment(source: Source, path: str) -> dict[str, t.Any]:
    """Return Python version, interesting distributions and torch's CUDA level of an environment."""
    config = dict(re.findall(r"(?m)^\s*([\w-]+)\s*=\s*(.*?)\s*$", source.read(f"{path}/pyvenv.cfg") or ""))
    packages: dict[str, str] = {}
    editable: dict[str, str] = {}
    cuda = None
    python = config.get("version_info") or config.get("version")
    for folder in site_directories(source, path):
        for name in source.names(folder):
            match = re.match(r"(.+?)-([^-]+)\.(?:dist-info|egg-info)$", name)
            if not match:
                continue
            distribution = re.sub(r"[-_.]+", "-", match.group(1)).lower()
            if not re.fullmatch(DISTRIBUTIONS, distribution):
                continue
            packages[distribution] = match.group(2)
            origin = editable_origin(source.read(f"{folder}/{name}/direct_url.json"))
            if origin:
                editable[distribution] = origin
        if "torch" in packages and cuda is None:
            cuda = torch_cuda(source.read(f"{folder}/torch/version.py"))
        if python is None:
            named = re.search(r"/python(\d+\.\d+)/", folder)
            python = named.group(1) if named else None
    return {
        "path": path,
        "kind": "conda" if not config else "venv",
        "python": ".".join(python.split(".")[:3]) if python else None,
        "packages": packages,
        "editable": editable,
        "torch_cuda": cuda,
    }


def site_directories(source: Source, path: str) -> list[str]:
    """Return the directories of an environment that hold distributions."""
    return [
        f"{path}/{lib}/{name}/site-packages"
        for lib in ("lib", "lib64")
        if not (lib == "lib64" and source.link(f"{path}/lib64"))
        for name in source.names(f"{path}/{lib}")
        if name.startswith("python")
    ]


def editable_origin(text: str | None) -> str | None:
    """Return the source directory of an editable install from its direct_url.json."""
    try:
        data = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(data, dict) or not (data.get("dir_info") or {}).get("editable"):
        return None
    url = str(data.get("url", ""))
    return url[7:] if url.startswith("file://") else None


def torch_cuda(text: str | None) -> str | None:
    """Return the CUDA level that torch was built for, from its version.py; "cpu" for a build without."""
    match = re.search(r"(?m)^cuda\s*(?::[^=\n]*)?=\s*(?:'([^']*)'|\"([^\"]*)\"|(None))", text or "")
    if not match:
        return None
    return "cpu" if match.group(3) else match.group(1) or match.group(2)


def describe_checkout(source: Source, path: str) -> dict[str, t.Any] | None:
    """Return branch, commit, tag and remote of a checkout of interest, None for any other."""
    git = f"{path}/.git"
    text = source.read(git, 4096)
    if text and text.startswith("gitdir:"):
        # A worktree or submodule: .git is a file that names the place.
        place = text.split(":", 1)[1].strip()
        git = place if place.startswith("/") else f"{path}/{place}"
    remote = without_credentials(first_remote(source.read(f"{git}/config") or ""))
    if not re.search(PROJECTS, f"{path.rsplit('/', 1)[-1]} {remote or ''}", re.IGNORECASE):
        return None
    head = (source.read(f"{git}/HEAD", 4096) or "").strip()
    branch = head[16:] if head.startswith("ref: refs/heads/") else None
    packed = source.read(f"{git}/packed-refs", 8 << 20) or ""
    commit = head if re.fullmatch(r"[0-9a-f]{40}", head) else None
    if branch:
        commit = (source.read(f"{git}/refs/heads/{branch}", 4096) or "").strip() or packed_commit(packed, branch)
    return {
        "path": path,
        "remote": remote,
        "branch": branch,
        "commit": commit[:12] if commit else None,
        "tag": tag_of(packed, commit),
    }


def first_remote(config: str) -> str | None:
    """Return the address of origin, or of the first remote, from a git configuration."""
    remotes = re.findall(r'\[remote "([^"]+)"\][^\[]*?\n\s*url\s*=\s*(\S+)', config)
    named = dict(reversed(remotes))
    return named.get("origin") or (remotes[0][1] if remotes else None)


def without_credentials(url: str | None) -> str | None:
    """Return an address without user name and password."""
    return re.sub(r"^([\w+.-]+://)[^/@]*@", r"\1", url) if url else None


def packed_commit(packed: str, branch: str) -> str | None:
    """Return the commit of a branch from packed-refs."""
    match = re.search(rf"(?m)^([0-9a-f]{{40}}) refs/heads/{re.escape(branch)}$", packed)
    return match.group(1) if match else None


def tag_of(packed: str, commit: str | None) -> str | None:
    """Return the last tag in packed-refs that names the commit, peeled ones included."""
    if not commit:
        return None
    tags = re.findall(r"(?m)^([0-9a-f]{40}) refs/tags/(\S+)(?:\n\^([0-9a-f]{40}))?", packed)
    named = [tag for plain, tag, peeled in tags if commit in (plain, peeled)]
    return named[-1] if named else None


def import_test(source: Source, environment: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Import the engine's packages in a process of their own, without writing bytecode and without any GPU visible.

    Returns:
        Module name to "ok" or the last line of the error.
    """
    modules = {"torch": "torch", "sglang": "sglang", "flash-attn": "flash_attn", "flashinfer-python": "flashinfer"}
    results: dict[str, str] = {}
    for distribution, module in modules.items():
        if distribution not in environment["packages"] or source.late():
            continue
        program = f"import {module}"
        output = source.run(
            "env",
            "CUDA_VISIBLE_DEVICES=",
            "PYTHONDONTWRITEBYTECODE=1",
            "FLASHINFER_WORKSPACE_BASE=/nonexistent",
            "TRITON_CACHE_DIR=/nonexistent",
            f"{environment['path']}/bin/python",
            "-B",
            "-c",
            f"try:\n {program}\n print('ok')\nexcept BaseException as e:\n print(type(e).__name__ + ': ' + str(e))",
        )
        lines = (output or "").strip().splitlines()
        results[module] = lines[-1][:300] if lines else "no answer"
    return results
