# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the rendered unit's own launch line on a GPU machine, talk to it with the openai client, and see whether the modules agree.

usage: launch_line.py --build DIR [--pair /tmp/pocket/dense] [--args JSON]     with ansible here: render the unit, pack the modules
       launch_line.py DIR OUT.json [--gpu 0]                                   there

The unit, its environment file and the packed modules come from the collection. There, an interpreter environment is made at the path
where the release would be, from the SGLang that python3 sees and this checkout's plugin; nothing else of the launch line differs. The
GPU in the environment is one of gpu_facts, by its UUID. Exit status 1 when a check failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import distribution
from packed import COLLECTIONS, call, pack

REPO = Path(__file__).resolve().parents[2]
NAME, PORT, BUDGET = "pocket", 38222, 32
GPU = "GPU-of-this-machine"
SLIM = {
    "sampling-backend": "pytorch",
    "grammar-backend": "none",
    "mm-feature-transport": "cpu",
    "disable-custom-all-reduce": True,
    "context-length": 2048,
    "cuda-graph-max-bs-decode": 8,
    "random-seed": 1,
}
"""What the slim runtime of the GPU machine asks for; the launch line itself adds none of it."""

PLAYBOOK = """
- hosts: localhost
  connection: local
  gather_facts: false
  vars_files: ["{role}/defaults/main.yml", "{role}/vars/main.yml"]
  tasks:
    - ansible.builtin.copy:
        content: "{{{{ lookup('ansible.builtin.template', '{role}/templates/dflash.service.j2') }}}}"
        dest: "{out}/dflash.service"
    - ansible.builtin.copy:
        content: "{{{{ instance_item | inferlab.dflash.instance_environment | to_json }}}}"
        dest: "{out}/environment.json"
"""


def build(out: Path, pair: str, more: dict[str, Any]) -> None:
    """Unit, environment and packed modules into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    instance = {
        "name": NAME,
        "profile": "ddtree",
        "engine_backend": "sglang",
        "algorithm": "ddtree",
        "budget": BUDGET,
        "block_size": None,
        "tp_size": 1,
        "gpus": [GPU],
        "port": PORT,
        "host": "127.0.0.1",
        "served_model_name": NAME,
        "mem_fraction": 0.3,
        "args": {**SLIM, **more},
        "env": {},
        "numa": None,
    }
    values = {
        "instance_item": instance,
        "instance_release": "/opt/dflash/releases/none",
        "instance_model_path": f"{pair}/target",
        "instance_drafter_path": f"{pair}/draft",
        "ansible_facts": {"systemd": {"version": 252}},
    }
    with tempfile.TemporaryDirectory() as folder:
        play = Path(folder) / "render.yml"
        play.write_text(PLAYBOOK.format(role=REPO / "roles" / "instance", out=out.resolve()))
        argv = ["ansible-playbook", "-i", "localhost,", str(play), "-e", json.dumps(values)]
        subprocess.run(argv, env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": COLLECTIONS}, check=True)
    pack("gpu_facts", {}, str(out / "gpu_facts.py"))
    pack("drafter_info", {"target": f"{pair}/target", "drafter": f"{pair}/draft"}, str(out / "drafter_info.py"))
    search = {"verify": "none", "search": ["/var/lib/dflash/instances"]}
    pack("engine_info", search, str(out / "engine_info.py"))


def make_interpreter(python: Path) -> None:
    """An environment at the launch line's interpreter path: links to what python3 sees, and this checkout's plugin."""
    venv = python.parents[1]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", str(venv)], check=True)
    site = next(venv.glob("lib/python3*/site-packages"))
    runtime = Path(next(iter(importlib.util.find_spec("sglang").submodule_search_locations))).parent
    for entry in runtime.iterdir():
        if not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)
    others = [p for p in sys.path if p.endswith("site-packages") and Path(p) != runtime]
    (site / "others.pth").write_text("\n".join([*others, str(distribution.SOURCE)]) + "\n")
    distribution.write_metadata(site)


def launch_line(unit: str) -> list[str]:
    line = next(x for x in unit.splitlines() if x.startswith("ExecStart="))
    return shlex.split(line.partition("=")[2])


def fetch(path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=20) as answer:
        text = answer.read().decode()
    return json.loads(text) if text.startswith(("{", "[")) else text


def wait(process: subprocess.Popen, log: Path, limit: float = 240) -> float:
    begin = time.monotonic()
    while "fired up and ready to roll" not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() - begin > limit:
            sys.exit(f"the server did not come up ({process.poll()}):\n{log.read_text(errors='replace')[-6000:]}")
        time.sleep(0.3)
    return time.monotonic() - begin


def group_of(leader: int) -> set[int]:
    """Processes of the server."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(entry.name)) == leader:
                found.add(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def checks(
    folder: Path, facts: dict[str, Any], gpu: int, process: subprocess.Popen, log: Path
) -> dict[str, tuple[bool, Any]]:
    """{what: (true, what was seen)}."""
    import openai

    found: dict[str, tuple[bool, Any]] = {}
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{PORT}/v1", api_key="none")
    models = [m.id for m in client.models.list().data]
    found["openai: model name"] = (models == [NAME], models)
    prompt = "def add(a, b):\n    return"
    # The first request fills the prefix cache; both that are compared find it filled.
    for dummy in range(2):
        answer = client.completions.create(model=NAME, prompt=prompt, max_tokens=64, temperature=0)
    text, used = answer.choices[0].text, answer.usage.completion_tokens
    found["openai: completion"] = (bool(text.strip()) and 0 < used <= 64, text[:60])
    parts = client.completions.create(model=NAME, prompt=prompt, max_tokens=64, temperature=0, stream=True)
    streamed = "".join(c.choices[0].text for c in parts if c.choices)
    found["openai: stream says the same"] = (streamed == text, [streamed, text])
    drawn = client.completions.create(model=NAME, prompt=prompt, max_tokens=32, temperature=0.8, top_p=0.9, n=2)
    found["openai: two sampled choices"] = (len(drawn.choices) == 2, [c.text[:30] for c in drawn.choices])
    said = client.chat.completions.create(
        model=NAME, messages=[{"role": "user", "content": "Write a function."}], max_tokens=32, temperature=0
    )
    found["openai: chat"] = (bool(said.choices[0].message.content), (said.choices[0].message.content or "")[:60])
    try:
        client.completions.create(model=NAME, prompt=prompt, max_tokens=-3)
        found["openai: bad value refused"] = (False, "accepted")
    except openai.BadRequestError as error:
        found["openai: bad value refused"] = (True, str(error)[:120])

    info = fetch("/server_info")
    pair = call(str(folder / "drafter_info.py"))
    drafter = pair.get("drafter") or {}
    rows = info.get("speculative_num_draft_tokens")
    found["drafter_info: the pair is good"] = (bool(pair.get("ok")), pair.get("summary"))
    found["drafter_info: block size as the server's"] = (
        drafter.get("block_size") == info.get("speculative_dflash_block_size"),
        [drafter.get("block_size"), info.get("speculative_dflash_block_size")],
    )
    found["verify rows are budget + 1"] = (rows == BUDGET + 1, rows)
    engines = call(str(folder / "engine_info.py")).get("foreign") or []
    versions = [(e.get("path"), e.get("version")) for e in engines]
    found["engine_info: version as the server's"] = (
        any(v == info.get("version") for dummy, v in versions),
        [versions, info.get("version")],
    )
    after = call(str(folder / "gpu_facts.py"))["ansible_facts"]["gpu"]["devices"][gpu]
    grown = (after["memory_used_mib"] or 0) - (facts["devices"][gpu]["memory_used_mib"] or 0)
    found["gpu_facts: memory of the server"] = (grown > 1000, grown)
    holders = {p["pid"] for p in after["processes"] or ()}
    mine = group_of(process.pid)
    found["gpu_facts: the server holds the GPU"] = (bool(holders & mine), [sorted(holders), sorted(mine)[:8]])

    metrics = fetch("/metrics")
    wanted = (
        "ddtree_verify_rounds_total",
        "ddtree_accepted_tokens_total",
        "ddtree_accept_length_bucket",
        "ddtree_tree_nodes",
    )
    missing = [w for w in (*wanted, "ddtree_tree_build_seconds", "sglang:") if w not in metrics]
    found["metrics of plugin and server"] = (not missing, missing or "all there")
    ready = [x for x in log.read_text(errors="replace").splitlines() if "DDTREE ready" in x]
    found["start line names plugin and budget"] = (bool(ready) and f"budget={BUDGET}" in ready[-1], ready[-1:])
    return found


def serve(folder: Path, out: Path, gpu: int) -> int:
    facts = call(str(folder / "gpu_facts.py"))["ansible_facts"]["gpu"]
    argv = launch_line((folder / "dflash.service").read_text())
    make_interpreter(Path(argv[0]))
    values = json.loads((folder / "environment.json").read_text())
    values["CUDA_VISIBLE_DEVICES"] = facts["devices"][gpu]["uuid"]
    # Kernels compiled before are used where they are; what a fresh machine compiles is no part of this check.
    kept = {k: os.environ[k] for k in ("TRITON_CACHE_DIR", "TVM_FFI_CACHE_DIR") if k in os.environ}
    runtime = {k: v for k, v in os.environ.items() if k.startswith(("SGLANG_", "NCCL_", "CUDA_HOME"))}
    environment = {**values, **kept, **runtime, "HOME": "/root"}
    print(" ".join(argv), flush=True)
    log = out.with_suffix(".log")
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            argv, env=environment, stdout=stream, stderr=subprocess.STDOUT, cwd="/tmp", start_new_session=True
        )
        try:
            seconds = wait(process, log)
            found = checks(folder, facts, gpu, process, log)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
    for what, (fine, seen) in found.items():
        print("ok  " if fine else "FAIL", what, json.dumps(seen, default=str)[:300], flush=True)
    wrong = [what for what, (fine, dummy) in found.items() if not fine]
    report = {
        "argv": argv,
        "start_seconds": seconds,
        "checks": {k: {"ok": f, "seen": s} for k, (f, s) in found.items()},
    }
    out.write_text(json.dumps(report, indent=1, default=str) + "\n")
    print(f"{len(found) - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, metavar="DIR")
    parser.add_argument("--pair", default="/tmp/pocket/dense")
    parser.add_argument("--args", default="{}", help="further arguments of the instance, a JSON object")
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU to serve on")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("out", nargs="?", type=Path)
    options = parser.parse_args()
    if options.build:
        build(options.build, options.pair, json.loads(options.args))
        return 0
    if not options.folder or not options.out:
        parser.error("name the folder made with --build, and a file for the report")
    return serve(options.folder, options.out, options.gpu)


if __name__ == "__main__":
    sys.exit(main())
