# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The plugin against SGLang's real interface. SGLang is not installed on test machines; there this file skips by name.

To run it: SGLang 0.5.17 on PYTHONPATH with the packages it imports; no GPU is needed (torch.cuda is faked).
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# By distribution: this folder's own name would pass for an importable `sglang`.
INSTALLED = {name.lower() for d in importlib.metadata.distributions() if (name := d.metadata["Name"])}
pytestmark = pytest.mark.skipif("sglang" not in INSTALLED, reason="sglang is not installed")

FAKE_CUDA = """
import torch
class Properties:
    name, major, minor, total_memory, multi_processor_count, warp_size = "GPU", 9, 0, 141 * 2**30, 132, 32
torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: 1
torch.cuda.current_device = lambda: 0
torch.cuda.get_device_capability = lambda *a, **k: (9, 0)
torch.cuda.get_device_properties = lambda *a, **k: Properties
torch.cuda.get_device_name = lambda *a, **k: "GPU"
torch.cuda.mem_get_info = lambda *a, **k: (140 * 2**30, 141 * 2**30)
torch.cuda._lazy_init = lambda: None
from sglang.srt.utils import common
common.get_nvgpu_memory_capacity = lambda: 143771
"""


def run(code: str, tmp_path: Path) -> str:
    """Output of `code` in a fresh process with a fake GPU and the plugin as an installed distribution."""
    info = tmp_path / "inferlab_ddtree-1.0.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: inferlab-ddtree\nVersion: 1.0.0\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\nddtree = ddtree.sglang.plugin:register\n")
    source = Path(__file__).resolve().parents[2] / "src"
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(source), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", FAKE_CUDA + textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_registration_meets_every_call_the_scheduler_makes(tmp_path: Path) -> None:
    out = run(
        """
        from sglang.srt.plugins import load_plugins
        load_plugins()
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
        algo = SpeculativeAlgorithm.from_string("ddtree")
        for name in vars(SpeculativeAlgorithm):
            if name.startswith(("is_", "supports_", "has_", "carries_", "need_")):
                print(name, getattr(algo, name)() if callable(getattr(algo, name)) else getattr(algo, name))
        print("width", algo.get_num_tokens_per_req_for_target_verify(17, False))
        print("future map", callable(algo.create_future_map))
        """,
        tmp_path,
    )
    values = dict(line.rsplit(" ", 1) for line in out.splitlines())
    assert values["is_dflash_family"] == "True"
    assert values["supports_grammar_overlap"] == "True"
    assert values["is_eagle"] == values["need_topk"] == values["carries_draft_hidden_states"] == "False"
    assert values["width"] == "17"


def test_worker_and_hooks_import_and_apply(tmp_path: Path) -> None:
    out = run(
        """
        from sglang.srt.plugins import load_plugins
        load_plugins()
        from ddtree.sglang import graphs, hooks, worker
        from sglang.srt.mem_cache import allocation_sizing, memory_pool
        from sglang.srt.model_executor.runner.decode_cuda_graph_runner import DecodeCudaGraphRunner
        from sglang.srt.speculative import spec_info
        before = DecodeCudaGraphRunner.get_spec_info, spec_info.create_dummy_verify_input
        hooks.install()
        hooks.install()
        print(DecodeCudaGraphRunner.get_spec_info.__wrapped__ is before[0])
        print(spec_info.create_dummy_verify_input.__wrapped__ is before[1])
        print(graphs.ChainVerifyGraphRunner.get_spec_info is not DecodeCudaGraphRunner.get_spec_info)
        print(issubclass(worker.DDTreeWorker, worker.DFlashWorkerV2))
        """,
        tmp_path,
    )
    assert out.split() == ["True"] * 4


def test_launcher_guards_the_server_and_keeps_the_key_out_of_server_args(tmp_path: Path) -> None:
    out = run(
        """
        import dataclasses, json
        from types import SimpleNamespace
        from starlette.testclient import TestClient
        from ddtree.sglang import launch
        from sglang.srt.entrypoints import http_server

        seen = {}
        http_server.launch_server = lambda args, execute_warmup_func: seen.update(args=args, warm_up=execute_warmup_func)
        http_server._execute_server_warmup = lambda args: (args.api_key, args.port)
        args = SimpleNamespace(api_key=None, port=30000, tokenizer_worker_num=1)
        launch.serve(args, "marked-key")
        client = TestClient(http_server.app, raise_server_exceptions=False)
        def status(headers):
            return client.get("/server_info", headers=headers).status_code
        print(status({}), status({"Authorization": "Bearer wrong"}), status({"Authorization": "Bearer marked-key"}) != 401)
        print(client.get("/health").status_code != 401)
        print(seen["warm_up"](args) == ("marked-key", 30000), "marked-key" in repr(seen["args"]))
        """,
        tmp_path,
    )
    assert out.split() == ["401", "401", "True", "True", "True", "False"]
