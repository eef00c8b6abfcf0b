# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""A second verify graph for the target: the chain, for batches that are too large for trees to pay.

Dense attention targets only. Recurrent layers size their per-row states and links for the tree.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode
from sglang.srt.model_executor.runner.decode_cuda_graph_runner import DecodeCudaGraphRunner
from sglang.srt.speculative.dflash_info import DFlashVerifyInput

if TYPE_CHECKING:
    from sglang.srt.model_executor.model_runner import ModelRunner

logger = logging.getLogger(__name__)


class ChainVerifyGraphRunner(DecodeCudaGraphRunner):
    """Target verify graphs of block-size rows under the causal mask: what DFLASH captures."""

    def get_spec_info(self, num_tokens: int) -> DFlashVerifyInput:
        return DFlashVerifyInput(
            draft_token=None,
            positions=None,
            draft_token_num=self.captured_req_width,
            custom_mask=None,
            capture_hidden_mode=CaptureHiddenMode.FULL,
        )


class ChainVerify:
    """Attention backend and graphs of the chain, swapped in for one round at a time."""

    def __init__(self, model_runner: ModelRunner, block_size: int) -> None:
        tic = time.perf_counter()
        self.model_runner = model_runner
        backup = model_runner.init_new_workspace
        try:
            self.attn_backend = model_runner._get_attention_backend(init_new_workspace=True)
        finally:
            model_runner.init_new_workspace = backup
        self.runner = ChainVerifyGraphRunner(
            model_runner, attn_backend=self.attn_backend, speculative_num_draft_tokens=block_size
        )
        logger.info("DDTREE: captured the chain's verify graphs in %.1f s.", time.perf_counter() - tic)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """The target verifies chains inside this context."""
        runner = self.model_runner
        backup = runner.attn_backend, runner.decode_cuda_graph_runner
        runner.attn_backend, runner.decode_cuda_graph_runner = self.attn_backend, self.runner
        try:
            yield
        finally:
            runner.attn_backend, runner.decode_cuda_graph_runner = backup
