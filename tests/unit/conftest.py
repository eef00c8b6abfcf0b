# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import gc


def pytest_collection_finish():
    """ansible-test forks for each test: what is there by now is left out of garbage collections, which would copy its pages in each child."""
    gc.collect()
    gc.freeze()
