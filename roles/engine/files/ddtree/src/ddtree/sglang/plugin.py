# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Entry point ``sglang.srt.plugins``: registers the algorithm and the command-line options.

SGLang runs it in the launcher and at the top of every scheduler process, and only logs what it raises; so it imports
little and does nothing that can fail for reasons outside SGLang's own plugin interface. Hooks on the model runner are
installed by the worker, in the one process that needs them.
"""

from __future__ import annotations

from ddtree.sglang import ALGORITHM


def register() -> None:
    """Make ``--speculative-algorithm DDTREE`` and its options known to SGLang."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    from ddtree.sglang.algo import DDTreeAlgo, create_worker_class
    from ddtree.sglang.cli import add_cli_args, from_cli_args

    SpeculativeAlgorithm.register(ALGORITHM, supports_overlap=True, spec_class=DDTreeAlgo)(create_worker_class)
    server_args = "sglang.srt.server_args.ServerArgs"
    HookRegistry.register(f"{server_args}.add_cli_args", add_cli_args, HookType.AFTER)
    HookRegistry.register(f"{server_args}.from_cli_args", from_cli_args, HookType.AROUND)
