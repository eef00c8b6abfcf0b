# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One gated delta net layer of a 27B target over a tree, by this package's kernels and by SGLang's: recurrence_bench.py OUT.json

Microseconds by CUDA events around graph replays, and each kernel's largest difference from the rule taken row by row in float64.
Times of one layer: a round of a 27B target has 48. SGLang's kernel also leaves every row's state; ours makes the accepted row's, timed as `state`.
The short convolution before it is timed likewise (`convolution`), and compared with SGLang's outputs instead.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import Any

import torch
from ddtree.sglang import conv, recurrent
from ddtree_kernels_bench import microseconds

KEY_HEADS, HEADS, DIM, DEPTH = 16, 48, 128, 15
VARIANTS = [("tf32x3", 64, 4, 32), ("tf32x3", 64, 4, 16), ("tf32", 64, 4, 32)]
"""Precision, columns of V a program, warps, step of K. The first is what a server runs."""


def random_parents(bs: int, rows: int, generator: torch.Generator) -> torch.Tensor:
    """[b, N] parents of trees at most DEPTH deep, parents before children."""
    parents = torch.full((bs, rows), -1, dtype=torch.int64)
    for tree in parents:
        depth = [0]
        for row in range(1, rows):
            # Mostly deep, as a drafter's trees are.
            parent = row - 1 - int(torch.randint(0, min(row, 4), (1,), generator=generator))
            while depth[parent] >= DEPTH:
                parent = int(tree[parent])
            tree[row] = parent
            depth.append(depth[parent] + 1)
    return parents


def by_rows(layer: dict[str, torch.Tensor], parents: torch.Tensor) -> torch.Tensor:
    """Outputs [b, N, HV, V] in float64, each row from its parent's state."""
    bs, rows = parents.shape
    group = HEADS // KEY_HEADS
    q, k, v = (layer[n][0].double().unflatten(0, (bs, rows)) for n in "qkv")
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    q, k = ((x * s).repeat_interleave(group, 2) for x, s in ((q, DIM**-0.5), (k, 1.0)))
    step = torch.nn.functional.softplus(layer["a"].double().unflatten(0, (bs, rows)) + layer["dt_bias"].double())
    gate = torch.exp(-layer["a_log"].double().exp() * step)
    beta = torch.sigmoid(layer["b"].double().unflatten(0, (bs, rows)))
    states = torch.zeros(bs, rows, HEADS, DIM, DIM, dtype=torch.float64, device=v.device)
    out = torch.zeros(bs, rows, HEADS, DIM, dtype=torch.float64, device=v.device)
    for r in range(bs):
        for i in range(rows):
            parent = int(parents[r, i])
            before = states[r, parent] if parent >= 0 else layer["states"][r].double()
            decayed = before * gate[r, i, :, None, None]
            update = beta[r, i, :, None] * (v[r, i] - torch.einsum("hvk,hk->hv", decayed, k[r, i]))
            states[r, i] = decayed + update[..., None] * k[r, i, :, None, :]
            out[r, i] = torch.einsum("hvk,hk->hv", states[r, i], q[r, i])
    return out


def measure(bs: int, rows: int, say: Any) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(rows)
    device = "cuda"

    def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(device=device, dtype=dtype)

    mixed = normal(1, bs * rows, (2 * KEY_HEADS + HEADS) * DIM)
    split = KEY_HEADS * DIM
    layer = {
        "q": mixed[..., :split].unflatten(-1, (KEY_HEADS, DIM)),
        "k": mixed[..., split : 2 * split].unflatten(-1, (KEY_HEADS, DIM)),
        "v": mixed[..., 2 * split :].unflatten(-1, (HEADS, DIM)),
        "a": normal(bs * rows, HEADS),
        "b": normal(bs * rows, HEADS),
        "a_log": torch.rand(HEADS, generator=generator).to(device),
        "dt_bias": torch.rand(HEADS, generator=generator).to(device),
        "states": normal(bs, HEADS, DIM, DIM, dtype=torch.float32),
    }
    cpu_parents = random_parents(bs, rows, generator)
    parents = cpu_parents.to(device)
    slots = torch.arange(bs, dtype=torch.int32, device=device)
    expected = by_rows(layer, cpu_parents)
    found: dict[str, Any] = {"microseconds": {}, "largest_error": {}, "largest_output": float(expected.abs().max())}

    def record(name: str, call: Any) -> None:
        begin = time.monotonic()
        try:
            out = call().reshape(expected.shape)
            found["largest_error"][name] = float((out.double() - expected).abs().max())
            found["microseconds"][name] = round(microseconds(call), 2)
        except Exception as error:
            found["largest_error"][name] = repr(error)[-300:]
        say(
            f"{rows:3d} rows batch {bs} {name:20s} {found['microseconds'].get(name)} us, "
            f"error {found['largest_error'][name]}, {time.monotonic() - begin:.1f} s"
        )

    mask = torch.zeros(bs, rows - 1, rows - 1, dtype=torch.uint8, device=device)
    recurrent.ancestors(parents, mask, DEPTH)
    kept = {
        "keys": torch.zeros(1, bs, rows, KEY_HEADS, DIM, device=device),
        "updates": torch.zeros(1, bs, rows, HEADS, DIM, device=device),
        "gates": torch.zeros(1, bs, rows, HEADS, device=device),
    }
    for precision, columns, warps, step in VARIANTS:
        record(
            f"{precision}/{columns}/{warps}/{step}",
            partial(
                recurrent.verify,
                **layer,
                slots=slots,
                mask=mask,
                max_depth=DEPTH,
                precision=precision,
                columns=columns,
                warps=warps,
                step=step,
                **{n: t[0] for n, t in kept.items()},
            ),
        )
    found["microseconds"]["mask"] = round(microseconds(lambda: recurrent.ancestors(parents, mask, DEPTH)), 2)
    made = torch.zeros(1, bs, rows, HEADS, DIM, DIM, device=device)
    steps = torch.full((bs,), rows - 1, dtype=torch.int32, device=device)
    found["microseconds"]["state"] = round(
        microseconds(
            lambda: recurrent.make_states(
                layer["states"][None], slots, parents, steps, **kept, out=made, max_depth=DEPTH
            )
        ),
        2,
    )
    found["convolution"] = convolution(bs, rows, cpu_parents, slots, normal)
    say(f"{rows:3d} rows batch {bs} convolution {json.dumps(found['convolution'])}")
    from sglang.srt.layers.attention.linear.kernels.gdn_triton import TritonGDNKernel

    theirs = partial(
        TritonGDNKernel().target_verify,
        layer["a_log"],
        layer["dt_bias"],
        *(layer[n] for n in "qkvab"),
        ssm_states=layer["states"],
        cache_indices=slots,
        query_start_loc=torch.arange(0, bs * rows + 1, rows, dtype=torch.int32, device=device),
        intermediate_states_buffer=made[0],
        intermediate_state_indices=slots,
        cache_steps=rows,
        retrieve_parent_token=parents,
    )
    record("sglang", theirs)
    return found


def convolution(bs: int, rows: int, cpu_parents: torch.Tensor, slots: torch.Tensor, normal: Any) -> dict[str, Any]:
    """Microseconds of both kernels, and where their outputs and windows differ most."""
    from sglang.kernels.ops.mamba.causal_conv1d_triton import causal_conv1d_update

    device, channels = slots.device, (2 * KEY_HEADS + HEADS) * DIM
    x = normal(bs, rows, channels).transpose(1, 2)
    state, weight = normal(bs, channels, 3), normal(channels, 4)
    pairs = zip(*(conv.links(tree) for tree in cpu_parents.tolist()))
    child, sibling = (torch.tensor(each, dtype=torch.int32, device=device) for each in pairs)
    parent = torch.zeros_like(child)
    windows = {n: torch.zeros(bs, rows, channels, 3, device=device, dtype=x.dtype) for n in ("sglang", "ours")}
    kept = state.clone()

    def theirs() -> torch.Tensor:
        # It rolls the state; as in a round, the next begins from the committed one.
        state.copy_(kept)
        return causal_conv1d_update(
            x,
            state,
            weight,
            None,
            "silu",
            conv_state_indices=slots,
            intermediate_conv_window=windows["sglang"],
            intermediate_state_indices=slots,
            retrieve_next_token=child,
            retrieve_next_sibling=sibling,
            retrieve_parent_token=parent,
        )

    expected = theirs()
    ours = partial(
        conv.tree_conv,
        x,
        kept,
        weight,
        None,
        True,
        slots=slots,
        parent=parent,
        windows=windows["ours"],
        window_slots=slots,
    )
    made = torch.full_like(parent, -7)
    conv.fill_parents(child, sibling, made)
    found: dict[str, Any] = {
        "parents_equal": bool(torch.equal(parent.cpu()[:, 1:], cpu_parents[:, 1:].int()) and torch.equal(made, parent)),
        "parents": round(microseconds(lambda: conv.fill_parents(child, sibling, made)), 2),
        "largest_difference": float((ours().float() - expected.float()).abs().max()),
        "windows_equal": bool(torch.equal(windows["ours"], windows["sglang"])),
        "sglang": round(microseconds(theirs) - microseconds(lambda: state.copy_(kept)), 2),
    }
    for block in (128, 256):
        found[f"ours/{block}"] = round(microseconds(partial(ours, block=block)), 2)
    return found


def main(out: str) -> None:
    report: dict[str, Any] = {"device": torch.cuda.get_device_name(), "shapes": [KEY_HEADS, HEADS, DIM], "of": {}}
    for rows, bs in ((17, 1), (33, 1), (65, 1), (17, 4), (33, 4), (65, 4)):
        report["of"][f"rows{rows}/batch{bs}"] = measure(bs, rows, lambda text: print(text, flush=True))
        with open(out, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    print(json.dumps(report["of"]))


if __name__ == "__main__":
    main(sys.argv[1])
