# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""DDTree verification for SGLang: a plugin of the ``sglang.srt.plugins`` entry-point group.

``plugin.register`` is the entry point. Importing this package imports neither torch nor sglang.
"""

ALGORITHM = "DDTREE"
"""Name given to ``--speculative-algorithm``."""
