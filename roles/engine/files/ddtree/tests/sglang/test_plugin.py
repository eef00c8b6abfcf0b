# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The plugin against SGLang's real interface. SGLang is not installed on test machines; there this file skips by name.

To run it: a known release of SGLang on PYTHONPATH with the packages it imports; no GPU is needed (torch.cuda is faked).
`tests/long/sglang_releases.py` of the collection makes such an environment for each known release and runs this file there.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

# By distribution: this folder's own name would pass for an importable `sglang`.
INSTALLED = {str(d.metadata["Name"]).lower() for d in importlib.metadata.distributions()}
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


def run(code: str, tmp_path: Path, interpret: bool = False, arguments: Sequence[str] = ()) -> str:
    """Output of `code` in a fresh process with a fake GPU and the plugin as an installed distribution."""
    info = tmp_path / "inferlab_ddtree-1.0.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: inferlab-ddtree\nVersion: 1.0.0\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\nddtree = ddtree.sglang.plugin:register\n")
    source = Path(__file__).resolve().parents[2] / "src"
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(source), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", FAKE_CUDA + textwrap.dedent(code), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
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
        def launch_server(args, execute_warmup_func=None):
            seen.update(args=args, warm_up=execute_warmup_func)
        http_server.launch_server = launch_server
        http_server._execute_server_warmup = lambda args: (args.api_key, args.port)
        args = SimpleNamespace(api_key=None, port=30000, tokenizer_worker_num=1)
        http_server.get_serving = lambda: args
        launch.serve(args, "marked-key")
        client = TestClient(http_server.app, raise_server_exceptions=False)
        def status(headers):
            return client.get("/server_info", headers=headers).status_code
        print(status({}), status({"Authorization": "Bearer wrong"}), status({"Authorization": "Bearer marked-key"}) != 401)
        print(client.get("/health").status_code != 401)
        # The release's own requests: handed their arguments, or reading the process's settings.
        own = seen["warm_up"](args) if seen["warm_up"] else (http_server.get_serving().api_key, http_server.get_serving().port)
        print(own == ("marked-key", 30000), "marked-key" in repr(seen["args"]))
        """,
        tmp_path,
    )
    assert out.split() == ["401", "401", "True", "True", "True", "False"]


def test_every_name_that_the_plugin_uses_is_there(tmp_path: Path) -> None:
    out = run(
        """
        from ddtree.sglang import api, releases
        release = releases.installed()
        print(len(api.needs(release)), *api.missing(release), sep="\\n")
        """,
        tmp_path,
    )
    assert int(out.splitlines()[0]) > 60
    assert out.splitlines()[1:] == []


TARGET = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
DRAFTER = {
    **TARGET,
    "architectures": ["DFlashDraftModel"],
    "num_hidden_layers": 2,
    "block_size": 8,
    "num_target_layers": 6,
    "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3]},
}
RESOLVE = """
import sys
from sglang.srt.plugins import load_plugins
load_plugins()
from ddtree.sglang import releases
from sglang.srt.server_args import prepare_server_args
from sglang.srt.arg_groups.overrides import resolved_view
args = prepare_server_args(sys.argv[1:])
if hasattr(args, "resolve_once"):
    args.resolve_once()
view = resolved_view(args)
for name in ("speculative_num_draft_tokens", "speculative_eagle_topk", "speculative_num_steps",
             "speculative_dflash_block_size", "speculative_draft_attention_backend", "max_running_requests"):
    print(name, getattr(view, name))
from sglang.srt import runtime_context as context
if hasattr(context, "publish"):
    context.publish(args, role="scheduler")
else:
    context.get_context().set_server_args(args)
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
algo, release = SpeculativeAlgorithm.from_string("DDTREE"), releases.installed()
print("widths", algo.get_num_tokens_per_req_for_target_verify(21, False), algo.get_num_tokens_per_req_for_target_verify(21, True))
settings = release.speculative(args)
print("tree", settings.speculative_num_draft_tokens, settings.speculative_eagle_topk)
with release.draft_scope(8):
    chain = release.speculative(release.draft_arguments(args, 8))
    print("draft", chain.speculative_num_draft_tokens, chain.speculative_eagle_topk)
print("again", settings.speculative_num_draft_tokens, settings.speculative_eagle_topk)
from ddtree.sglang import hooks
hooks.install()
from sglang.srt.mem_cache import allocation_sizing
extra = allocation_sizing.get_req_to_token_extra_context_len
print("extra", extra() if hasattr(args, "resolve_once") else extra(args))
from sglang.srt.speculative import spec_info
import inspect
wanted = inspect.signature(spec_info.create_dummy_verify_input.__wrapped__).parameters
given = {"spec_algorithm": algo, "server_args": args, "custom_mask": "mask", "num_tokens_per_req": 20, "is_draft_worker": False}
dummy = spec_info.create_dummy_verify_input(*(given[name] for name in wanted))
print("dummy", type(dummy).__name__, dummy.topk, dummy.draft_token_num, dummy.custom_mask)
given["is_draft_worker"] = True
dummy = spec_info.create_dummy_verify_input(*(given[name] for name in wanted))
print("dummy", type(dummy).__name__, dummy.custom_mask)
from sglang.srt.model_executor.runner.decode_cuda_graph_runner import DecodeCudaGraphRunner
from types import SimpleNamespace
model_runner = SimpleNamespace(spec_algorithm=algo, server_args=args, is_draft_worker=False)
runner = SimpleNamespace(model_runner=model_runner, buffers=SimpleNamespace(custom_mask="mask"), captured_req_width=20)
tree = DecodeCudaGraphRunner.get_spec_info(runner, 40)
print("capture", type(tree).__name__, tree.topk, tree.draft_token_num, tree.custom_mask)
from sglang.srt.managers import scheduler
request = SimpleNamespace(return_logprob=True, return_hidden_states=False, return_sampling_mask=False)
print("logprob", "return_logprob" in scheduler.validate_dflash_request(request, True))
"""


BUILD = """
import sys
from types import SimpleNamespace
from sglang.srt.plugins import load_plugins
load_plugins()
from ddtree.sglang import releases
from sglang.srt import runtime_context as context
from sglang.srt.server_args import prepare_server_args
args = prepare_server_args(sys.argv[1:])
if hasattr(args, "resolve_once"):
    args.resolve_once()
    context.publish(args, role="scheduler")
else:
    context.get_context().set_server_args(args)
from ddtree.sglang import worker as module
release = releases.installed()

def widths(server_args):
    settings = release.speculative(server_args)
    return settings.speculative_num_draft_tokens, settings.speculative_eagle_topk

# DFLASH's worker without a model: what it finds when it builds each part of the draft side.
head = SimpleNamespace(defer_verify_gather=True)
target = SimpleNamespace(model_runner=SimpleNamespace(model_config=release.model_config(args)))
base = module.DFlashWorkerV2
known = set(__import__("inspect").signature(base.__init__).parameters)

def build(self, *, server_args, target_worker, gpu_id, nccl_port, ps=None):
    print("built", *widths(server_args))
    self.server_args, self._target_worker, self.model_runner = server_args, target_worker, target_worker.model_runner
    self.device, self.ps = "cpu", ps
    self.selector, self.lilicorr, self._is_domino, self._target_logits_processor = None, None, False, head

base.__init__ = build
base.alloc_memory_pool = lambda self, **passed: print("pool", *widths(self.server_args), sorted(passed))
module.api.refuse_missing = lambda release: print("held against the list", release.version == releases.installed().version)
passed = {"server_args": args, "target_worker": target, "gpu_id": 0, "nccl_port": 1, "ps": SimpleNamespace(tp_rank=0)}
made = module.DDTreeWorker(**{name: value for name, value in passed.items() if name in known})
made.alloc_memory_pool(memory_pool_config=None, req_to_token_pool=None)
print("target", *widths(args))
print("config", made.config.rows, made.config.topk, made.config.block_size, made._is_hybrid, made._metrics)
print("whole logits", head.defer_verify_gather is (release.version == "0.5.17"))
"""


def test_the_worker_builds_its_draft_side_as_a_chain(tmp_path: Path) -> None:
    line = (
        "--speculative-algorithm DDTREE --speculative-ddtree-budget 19 --speculative-ddtree-topk 6 --attention-backend triton "
        "--sampling-backend pytorch --grammar-backend none --skip-tokenizer-init --context-length 2048"
    )
    out = run(BUILD, tmp_path, arguments=[*models(tmp_path), *line.split()])
    assert (
        out.splitlines()[-7:]
        == [
            "held against the list True",
            "built 8 1",
            "pool 8 1 ['memory_pool_config', 'req_to_token_pool']",
            "target 20 6",
            "config 20 6 8 False None",
            "whole logits True",
        ][-7:]
    )


def models(tmp_path: Path) -> list[str]:
    for name, config in (("target", TARGET), ("drafter", DRAFTER)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    return ["--model-path", str(tmp_path / "target"), "--speculative-draft-model-path", str(tmp_path / "drafter")]


def test_arguments_resolve_and_reach_every_place_that_reads_them(tmp_path: Path) -> None:
    line = (
        "--speculative-algorithm DDTREE --speculative-ddtree-budget 19 --speculative-ddtree-topk 6 --attention-backend triton "
        "--sampling-backend pytorch --grammar-backend none --skip-tokenizer-init --context-length 2048"
    )
    out = run(RESOLVE, tmp_path, arguments=[*models(tmp_path), *line.split()])
    assert [text for text in out.splitlines() if text.split()[0] in SAID] == [
        "speculative_num_draft_tokens 20",
        "speculative_eagle_topk 6",
        "speculative_num_steps 1",
        "speculative_dflash_block_size 8",
        "speculative_draft_attention_backend triton",
        "max_running_requests 48",
        "widths 21 8",
        "tree 20 6",
        "draft 8 1",
        "again 20 6",
        "extra 44",
        "dummy DDTreeVerifyInput 6 20 mask",
        "dummy DFlashVerifyInput None",
        "capture DDTreeVerifyInput 6 20 mask",
        "logprob True",
    ]


SAID = {
    *(
        "speculative_num_draft_tokens",
        "speculative_eagle_topk",
        "speculative_num_steps",
        "speculative_dflash_block_size",
    ),
    *(
        "speculative_draft_attention_backend",
        "max_running_requests",
        "widths",
        "tree",
        "draft",
        "again",
        "extra",
        "dummy",
    ),
    *("capture", "logprob"),
}

ROUND_TRIP = """
from types import SimpleNamespace
import torch
from ddtree.sglang import worker as module
from ddtree.sglang.buffers import RoundBuffers
from ddtree.sglang.commit import CapturedCommit
from ddtree.sglang.config import DDTreeConfig
from ddtree.sglang.draft_input import DDTreeDraftInput
from ddtree.sglang.sampler import DDTreeDraftSampler
from sglang.srt.model_executor import forward_batch_info
try:
    from sglang.srt.mem_cache.kv_index_translator import KVIndexTranslator
    forward_batch_info.enable_num_token_non_padded = lambda: False
except ImportError:
    KVIndexTranslator = None  # slots travel as they are

V, L, ROWS, PADDED, SLOTS, WIDTH = 32, 8, 20, 4, 400, 90
torch.manual_seed(0)
generator = torch.Generator().manual_seed(0)
follows = lambda token, position: (3 * token + position) % V  # the toy target

class Worker(module.DDTreeWorker):
    def __init__(self, captured, chain_above):
        self.config = DDTreeConfig(L, ROWS, 6, max_tree_batch=chain_above)
        self.kv = torch.full((SLOTS,), -1)
        self.draft_kv = torch.full((SLOTS,), -1)
        table = torch.randperm(SLOTS - 1, generator=generator)[: 4 * WIDTH].view(4, WIDTH) + 1
        pool = SimpleNamespace(move_kv_cache=self.move)
        mask = SimpleNamespace(buffer=torch.zeros(4 * ROWS * (WIDTH + ROWS), dtype=torch.uint8), fits=lambda bs: True)
        runner = SimpleNamespace(max_bs=PADDED, bs=PADDED, captured_req_width=ROWS) if captured else None
        self.model_runner = SimpleNamespace(
            req_to_token_pool=SimpleNamespace(req_to_token=table.int(), size=4),
            token_to_kv_pool=pool,
            model=SimpleNamespace(get_input_embeddings=lambda: lambda ids: ids[..., None].float()),
            decode_cuda_graph_runner=runner,
            attn_backend=SimpleNamespace(verify_mask=mask if captured else None),
        )
        self._target_worker = SimpleNamespace(forward_batch_generation=self.target, model_runner=self.model_runner)
        self.draft_model_runner = SimpleNamespace(forward=self.drafter)
        if KVIndexTranslator is not None:
            for runner in (self.model_runner, self.draft_model_runner):
                runner.kv_index_translator = KVIndexTranslator(
                    req_to_token=table, token_to_kv_pool_allocator=None, token_to_kv_pool=None, page_size=1, device="cpu"
                )
        self.device, self.block_size, self._mask_token_id = "cpu", L, 0
        self.use_compact_draft_cache = self._need_mamba_verify_commit = self._is_hybrid = False
        self._draft_block_ids_buf = self._chain_verify = self._metrics = self._fused_kv_helper = None
        self._draft_block_spec_info = self._forced = None
        self._last_nodes = ROWS - 1
        self.draft_model, self._noise_embed_scale = SimpleNamespace(), 1.0
        self._rounds = RoundBuffers(L, "cpu")
        self._eager_mask = torch.zeros((0,), dtype=torch.uint8)
        self._draft_sampler = DDTreeDraftSampler(
            weight=torch.eye(V), num_org=V, org_vocab_start=0, config=self.config, max_bs=PADDED, tp_group=None
        )
        self._captured_commit = CapturedCommit(self, self._draft_of_runner) if captured else None

    def move(self, target, source):
        self.kv[target] = self.kv[source].clone()

    def _append_target_hidden_to_draft_kv_by_loc(self, *, target_hidden, cache_loc_2d, commit_lens, **_):
        for request, length in enumerate(commit_lens.tolist()):
            rows = target_hidden.view(len(commit_lens), L, -1)[request, :length, 0]
            self.draft_kv[cache_loc_2d[request, :length]] = rows.long()

    def drafter(self, batch):
        bs = batch.batch_size
        slots = self._draft_verify_out_cache_loc_buf[:bs].view(-1)
        assert torch.equal(batch.out_cache_loc, slots)
        if KVIndexTranslator is not None:
            assert batch.kv_loc_plan.read_extent == L
        hidden = torch.randn(bs, L, V, generator=generator)
        for request in range(bs):
            token, position = int(batch.input_ids.view(bs, L)[request, 0]), int(batch.seq_lens[request])
            for row in range(1, L):
                token = follows(token, position + row - 1)
                # Often the best candidate, sometimes a lower one, sometimes none.
                hidden[request, row, token] += [4.0, 2.5, 0.0][int(torch.randint(0, 3, (), generator=generator)) * (row % 3 == 0)]
        return SimpleNamespace(logits_output=SimpleNamespace(hidden_states=hidden.view(bs * L, V)), can_run_graph=False)

    def target(self, forward_batch, **_):
        ids, positions, loc = forward_batch.ids, forward_batch.positions, forward_batch.loc
        self.kv[loc] = ids
        out = SimpleNamespace(
            next_token_logits=torch.nn.functional.one_hot(follows(ids, positions), V).float() * 9,
            hidden_states=ids[:, None].float(),
        )
        if self._captured_commit is not None:
            pad = lambda x, value: torch.cat([x, torch.full(((PADDED - forward_batch.bs) * ROWS, *x.shape[1:]), value)])
            padded = SimpleNamespace(
                next_token_logits=pad(out.next_token_logits, 0.0), hidden_states=pad(out.hidden_states, -5.0)
            )
            lens = torch.cat([forward_batch.seq_lens, torch.ones(PADDED - forward_batch.bs, dtype=torch.int64)])
            self._captured_commit(self.model_runner.decode_cuda_graph_runner, padded, SimpleNamespace(seq_lens=lens), PADDED * ROWS)
        return SimpleNamespace(logits_output=out, can_run_cuda_graph=self._captured_commit is not None)

def prepare_for_verify(self, batch, target_worker):
    if KVIndexTranslator is not None:
        plan = self.kv_loc_plan
        assert plan.read_extent == self.draft_token_num
        assert torch.equal(plan.write_ids(target_worker.model_runner.kv_index_translator), batch.out_cache_loc)
    return SimpleNamespace(
        ids=self.draft_token.clone(), positions=self.positions.clone(), loc=batch.out_cache_loc.clone(),
        bs=len(batch.seq_lens), seq_lens=batch.seq_lens,
    ), None

module.DDTreeVerifyInput.prepare_for_verify = prepare_for_verify
import sglang.srt.distributed
sglang.srt.distributed.get_tp_group = lambda: SimpleNamespace(world_size=1)
torch.cuda.current_stream = lambda *a: None
torch.Tensor.record_stream = lambda self, stream: None
torch.get_device_module = lambda device: SimpleNamespace(current_stream=lambda: None)

for captured, chain_above, greedy in ((False, None, True), (True, None, True), (True, None, False), (False, 1, True)):
    worker = Worker(captured, chain_above)
    worker._ensure_draft_block_buffers(2)
    seq_lens, bonus = torch.tensor([5, 11]), torch.tensor([7, 2])
    texts, deep = [[7], [2]], 0
    for _ in range(5):
        info = SimpleNamespace(
            is_all_greedy=greedy, has_custom_logit_processor=False, acc_additive_penalties=None,
            acc_scaling_penalties=None, logit_bias=None, temperatures=torch.full((2, 1), 0.01), sampling_seed=None,
            need_top_k_sampling=False, need_top_p_sampling=False, need_min_p_sampling=False,
            top_ks=torch.tensor([50, 50]), top_ps=torch.ones(2), min_ps=torch.zeros(2),
        )
        spec = DDTreeDraftInput.create(bonus_tokens=bonus, new_seq_lens=seq_lens)
        mode = SimpleNamespace(is_extend=lambda: False, is_idle=lambda: False)
        batch = SimpleNamespace(
            forward_mode=mode, is_extend_in_batch=False, seq_lens=seq_lens, seq_lens_cpu=seq_lens.clone(), seq_lens_sum=0,
            req_pool_indices=torch.tensor([2, 0]), spec_info=spec, sampling_info=info, has_grammar=False, reqs=[],
            can_run_decode_cuda_graph=True, return_logprob=False,
        )
        published = []
        result = worker.forward_batch_generation(batch, published.append, None)
        lengths = result.accept_lens.tolist()
        for request, length in enumerate(lengths):
            texts[request] += result.next_token_ids.view(2, L)[request, :length].tolist()
        seq_lens = result.new_seq_lens.clone()
        assert torch.equal(published[0], seq_lens)
        bonus = result.next_draft_input.bonus_tokens.clone()
        deep = max(deep, *lengths)
    for request, (row, start) in enumerate(((2, 5), (0, 11))):
        text = texts[request]
        assert all(b == follows(a, start + i) for i, (a, b) in enumerate(zip(text, text[1:]))), "text of the target"
        slots = worker.model_runner.req_to_token_pool.req_to_token[row, start : int(seq_lens[request])].long()
        assert worker.kv[slots].tolist() == text[:-1], "target KV"
        assert worker.draft_kv[slots].tolist() == text[:-1], "drafter KV"
    print("ok", captured, chain_above, greedy, deep > 3)
"""


def test_rounds_of_the_worker_against_a_toy_target(tmp_path: Path) -> None:
    """Draft, verify and commit through the real worker: the text is the target's, and both KV caches hold exactly it."""
    lines = run(ROUND_TRIP, tmp_path, interpret=True).split("\n")
    assert [line for line in lines if line.startswith("ok")] == [
        "ok False None True True",
        "ok True None True True",
        "ok True None False True",
        "ok False 1 True True",
    ]


FINISH = """
from array import array
from ddtree.sglang import hooks
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.sampling.sampling_params import SamplingParams

def ended(text, rounds, **stops):
    sampling = SamplingParams(max_new_tokens=10, temperature=0, **stops)
    sampling.normalize(None)
    request = Req("r", "", array("q", [1, 2, 3]), sampling, vocab_size=1000)
    at = 0
    for length in rounds:
        request.output_ids.extend(text[at : at + length])
        at += length
        request.update_finish_state(length)
        if request.finished():
            break
    return request.output_ids_through_stop.tolist(), request.finished_reason.to_json()

def differing():
    found = 0
    for place in range(14):
        text = [5] * 16
        text[place] = 6
        for rounds in ([16], [1, 15], [7, 9], [9, 7], [3, 3, 3, 3, 4]):
            stops = {"stop_token_ids": [6]}
            found += ended(text, rounds, **stops) != ended(text, [1] * 16, **stops)
    return found

before = differing()
hooks.install()
print("without", before > 0, "with", differing())
"""


def test_stops_and_length_in_one_round(tmp_path: Path) -> None:
    """With SGLang's own requests: however the rounds fall, a text ends where it ends one token at a time."""
    release = importlib.metadata.version("sglang")
    wrong_alone = release == "0.5.17"
    assert run(FINISH, tmp_path).split("\n")[-2] == f"without {wrong_alone} with 0"


CONVOLUTION = """
import torch
from sglang.kernels.ops.mamba import causal_conv1d_triton
from ddtree.sglang import conv
causal_conv1d_triton.is_arch_support_pdl = lambda: False  # an instruction that Triton's interpreter lacks
generator = torch.Generator().manual_seed(1)

for rows, bs, dim in ((17, 2, 24), (33, 1, 8)):
    trees = [[0, *(int(torch.randint(0, r, (1,), generator=generator)) for r in range(1, rows))] for i in range(bs)]
    child, sibling = (torch.tensor(links, dtype=torch.int32) for links in zip(*map(conv.links, trees)))
    x = torch.randn(bs, rows, dim, generator=generator).transpose(1, 2)
    pool, weight = torch.randn(1, 4, dim, 3, generator=generator), torch.randn(dim, 4, generator=generator)
    made = []
    for update in (causal_conv1d_triton.causal_conv1d_update, conv.wrapped(None, pool)):
        windows = torch.zeros(bs, rows, dim, 3)
        parent = torch.full((bs, rows), -7, dtype=torch.int32)
        kept = pool.clone()
        out = update(
            x, pool[0], weight, None, "silu",
            conv_state_indices=torch.arange(1, bs + 1, dtype=torch.int32), intermediate_conv_window=windows,
            intermediate_state_indices=torch.arange(bs, dtype=torch.int32), retrieve_next_token=child,
            retrieve_next_sibling=sibling, retrieve_parent_token=parent,
        )
        # SGLang's rolls the flat rows into the request's window.
        pool.copy_(kept)
        made.append((out, windows, parent))
    (a, windows_a, parent_a), (b, windows_b, parent_b) = made
    print(rows, parent_a.tolist() == trees, torch.equal(parent_a, parent_b), torch.equal(windows_a, windows_b),
          float((a - b).abs().max()) < 2e-6)
"""


def test_the_convolution_over_a_tree_is_sglangs(tmp_path: Path) -> None:
    """Its own kernel in Triton's interpreter: the same parents, the same windows, outputs apart by the order of four products."""
    lines = [line for line in run(CONVOLUTION, tmp_path, interpret=True).split("\n") if line.startswith(("17", "33"))]
    assert lines == ["17 True True True True", "33 True True True True"]
