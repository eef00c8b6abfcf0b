# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""DFlash block drafting with DDTree verification.

The package imports nothing at this level: `ddtree.tree` and `ddtree.verify` need torch alone (the SGLang plugin uses
them inside SGLang's own environment), `ddtree.generate` needs transformers, `ddtree.server` FastAPI and uvicorn.
"""

__version__ = "1.0.0"
