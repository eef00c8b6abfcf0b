# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The SGLang plugin and the rendered launch lines against SGLang's real releases, on a machine without a GPU.

usage: sglang_releases.sh [--only lines|api|tests] [VERSION ...]

For each release: its wheel and the pure-Python packages it imports go into an environment of their own under .build/sglang (600 MB each, the
package index is needed once), on top of .venv-torch's torch. What needs a GPU to import (sgl_kernel, flashinfer, ...) is a stub, torch.cuda is
faked, the wheel's compiled parts are not imported. So this shows that names, signatures and argument handling fit, not that a server runs.

lines  what the roles render is parsed by the release's own argument parser, with every option known under exactly that name; so are the options
       that refusals and remedies name
api    every name that the plugin uses is there and takes what the plugin passes (ddtree.sglang.api)
tests  the plugin's tests, of which test_plugin.py resolves real arguments and drives the real worker against a toy target

Exit status 1 when anything failed. Minutes per release.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import yaml

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests/gpu"))

import distribution  # noqa: E402

PACKAGE = REPO / "roles/engine/files/ddtree"
BUILD = REPO / ".build/sglang"
TORCH = REPO / ".venv-torch"
ASPECTS = ("lines", "api", "tests")

PACKAGES = Path(__file__).with_name("sglang_packages.txt")
OWN = {
    "0.5.17": ["transformers==5.12.1", "tokenizers==0.22.2", "openai==2.6.1", "compressed-tensors==0.20.1"],
    "0.5.23": ["transformers==5.19.0", "tokenizers==0.23.2", "openai==2.8.0", "compressed-tensors==0.18.0"],
}
"""The release's own pins of what its configuration classes and protocol depend on."""

EVERYTHING = {
    "name": "everything",
    "engine_backend": "sglang",
    "algorithm": "ddtree",
    "port": 30000,
    "gpus": ["GPU-1", "GPU-2"],
    "tp_size": 2,
    "budget": 32,
    "block_size": 16,
    "mem_fraction": 0.8,
    "args": {
        "speculative_ddtree_topk": 8,
        "speculative_ddtree_force_spine": True,
        "speculative_ddtree_max_tree_batch": 8,
        "attention_backend": "triton",
        "cuda_graph_max_bs_decode": 16,
        "context_length": 4096,
        "max_running_requests": 8,
        "sampling_backend": "pytorch",
        "grammar_backend": "xgrammar",
        "random_seed": 1,
        "disable_radix_cache": True,
        "log_level": "info",
    },
}
WORD = re.compile(r"(?<![\w-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?![\w-])")
# Options of other programs in the same files.
FOREIGN = {"--shm-size", "--make-rshared", "--fix-broken", "--break-system-packages", "--gpu-architecture"}


def instances() -> dict[str, dict[str, Any]]:
    """Instances to render: every algorithm, the example inventory with its profiles, and one with every option."""
    found = {
        "everything": EVERYTHING,
        "few": {"name": "few", "engine_backend": "sglang", "algorithm": "ddtree", "port": 1},
    }
    for algorithm in ("dflash", "none"):
        found[algorithm] = {**EVERYTHING, "algorithm": algorithm, "args": ["--trust-remote-code"]}
    for path in sorted((REPO / "inventories/example/group_vars").glob("*.yml")):
        for instance in yaml.safe_load(path.read_text()).get("dflash_instances") or []:
            for number, profile in enumerate([{}, *instance.get("profiles", [])]):
                found[f"{path.stem}/{instance['name']}/{number}"] = {**instance, **profile}
    return found


def rendered() -> list[dict[str, Any]]:
    """The words after the module's name, and what they must come to."""
    from ansible_collections.inferlab.dflash.plugins.module_utils._instance import launch

    lines = []
    for name, instance in instances().items():
        words = launch.argv(instance, "/m/target", "/m/drafter")
        assert words[1:3] == ["-m", "ddtree.sglang.launch"], words
        algorithm = instance["algorithm"]
        wanted = {
            "model_path": "/m/target",
            "host": "0.0.0.0",
            "port": instance["port"],
            "tp_size": instance.get("tp_size", 1),
            "served_model_name": launch.served_name(instance),
            "enable_metrics": True,
            "api_key": None,
            "mem_fraction_static": instance.get("mem_fraction"),
            "speculative_algorithm": None if algorithm == "none" else algorithm.upper(),
            "speculative_draft_model_path": None if algorithm == "none" else "/m/drafter",
            "speculative_dflash_block_size": None if algorithm == "none" else instance.get("block_size"),
        }
        if algorithm == "ddtree":
            wanted["speculative_num_draft_tokens"] = (instance.get("budget") or launch.DEFAULT_BUDGET) + 1
            wanted["attention_backend"] = "triton"
        lines.append({"name": name, "words": words[3:], "wanted": wanted})
    return lines


def named() -> dict[str, list[str]]:
    """Options that texts tell a user to give, by the file that says so."""
    files = [p for p in sorted((PACKAGE / "src/ddtree/sglang").glob("*.py")) if p.name != "api.py"]
    files += [REPO / "plugins/module_utils/_diagnosis" / name for name in ("catalogue.py", "rules_engine.py")]
    files += [REPO / "docs/ddtree-sglang.md"]
    skip = {"--only", "--pair", *FOREIGN}
    return {
        str(p.relative_to(REPO)): sorted({word for word in WORD.findall(p.read_text()) if word not in skip})
        for p in files
    }


def environment(version: str) -> Path:
    """Interpreter of the release's environment, made when it is not there."""
    folder = BUILD / version
    python, done = folder / "bin/python", folder / "done"
    if done.exists():
        return python
    print(f"  making {folder}", flush=True)

    def run(*words: Any) -> None:
        subprocess.run([str(word) for word in words], check=True)

    run(TORCH / "bin/python", "-m", "venv", "--clear", folder)
    site = next((folder / "lib").glob("python3.*/site-packages"))
    torch_site = next((TORCH / "lib").glob("python3.*/site-packages"))
    (site / "zz_torch.pth").write_text(f"{torch_site}\n")
    pip = (python, "-m", "pip", "-qq", "--disable-pip-version-check")
    run(*pip, "install", "--no-deps", "-r", PACKAGES, *OWN[version])
    wheels = folder / "wheels"
    target = ("--no-deps", "--only-binary=:all:", "--python-version", "3.12")
    run(*pip, "download", *target, "-d", wheels, f"sglang=={version}")
    with zipfile.ZipFile(next(wheels.glob("sglang-*.whl"))) as archive:
        archive.extractall(site)
    done.touch()
    return python


def variables(version: str) -> dict[str, str]:
    """Environment of a process that imports SGLang, with the plugin as an installed distribution."""
    metadata = BUILD / version / "plugin"
    distribution.write_metadata(metadata)
    path = [Path(__file__).parent / "sglang_stubs", metadata, distribution.SOURCE, PACKAGE / "tests/sglang"]
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("SGLANG_", "PYTHON"))}
    return {**keep, "PYTHONPATH": os.pathsep.join(map(str, path)), "SGLANG_IS_FLASHINFER_AVAILABLE": "false"}


INSIDE = """
import json, sys
from test_plugin import FAKE_CUDA
exec(FAKE_CUDA)
from sglang.srt.plugins import load_plugins
load_plugins()
task = json.load(sys.stdin)
found = []
if task["aspect"] == "api":
    from ddtree.sglang import api, releases
    release = releases.installed()
    print(f"  - {len(api.needs(release))} entries, {release.evidence}", file=sys.stderr)
    found = api.missing(release)
else:
    import argparse
    from ddtree.sglang import args as plugin_args, cli, launch, releases
    from sglang.srt.server_args import ServerArgs
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.error = lambda text: (_ for _ in ()).throw(ValueError(text))
    ServerArgs.add_cli_args(parser)
    known = set(parser._option_string_actions)
    for line in task["lines"]:
        words = launch.prepare_argv(line["words"])
        # Exactly: argparse would take an abbreviation of a new name for the old one.
        unknown = [w for w in words if w.startswith("--") and w.split("=")[0] not in known]
        if unknown:
            found.append(f"line {line['name']}: no option {', '.join(unknown)}")
            continue
        try:
            parsed = parser.parse_args(words)
            cli.apply_options(parsed, {})
        except (ValueError, argparse.ArgumentError) as error:
            found.append(f"line {line['name']}: {error}")
            continue
        for name, value in line["wanted"].items():
            if getattr(parsed, name, "absent") != value:
                found.append(f"line {line['name']}: {name} is {getattr(parsed, name, 'absent')!r}, not {value!r}")
    said = {("refusal", "--" + option.replace("_", "-")) for _, option, _ in (*plugin_args._EXCLUDED, *releases.installed().excluded)}
    said |= {(file, word) for file, words in task["named"].items() for word in words}
    found += [f"{file} names {word}, which is no option" for file, word in sorted(said) if word not in known]
    print(f"  - {len(task['lines'])} lines, {len(said)} named options, {len(known)} options known", file=sys.stderr)
print(json.dumps(found))
"""


def check(version: str, aspect: str) -> list[str]:
    """What is wrong, one sentence each."""
    python, env = environment(version), variables(version)
    if aspect == "tests":
        words = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(PACKAGE / "tests/sglang")]
        done = subprocess.run(words, env=env, cwd=PACKAGE, timeout=3600, check=False)
        return [] if done.returncode == 0 else [f"pytest ended with status {done.returncode}"]
    task = {"aspect": aspect, "lines": rendered(), "named": named()}
    done = subprocess.run(
        [str(python), "-W", "ignore", "-c", INSIDE],
        env=env,
        input=json.dumps(task),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode:
        return [f"the check itself failed: {done.stderr.strip().splitlines()[-1]}", done.stderr[-2000:]]
    print("\n".join(text for text in done.stderr.splitlines() if text.startswith("  - ")))
    return list(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    from ddtree.sglang import releases

    parser = argparse.ArgumentParser(
        description="The plugin and launch lines against real releases of SGLang, without a GPU."
    )
    parser.add_argument("--only", choices=ASPECTS)
    parser.add_argument("versions", nargs="*", default=list(releases.RELEASES))
    options = parser.parse_args()
    failed = 0
    for version in options.versions:
        for aspect in [options.only] if options.only else ASPECTS:
            print(f"SGLang {version}: {aspect}", flush=True)
            found = check(version, aspect)
            for text in found:
                print(f"  {text}")
            print("  failed" if found else "  ok", flush=True)
            failed += bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
