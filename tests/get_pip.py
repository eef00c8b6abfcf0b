# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for the get-pip script that ansible-test downloads: installs from the package index with ensurepip's own pip."""

from __future__ import annotations

import ensurepip
import glob
import os
import runpy
import sys

bundled = glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))
sys.path.insert(0, bundled[0])
options = [option for option in sys.argv[1:] if option not in ("--no-setuptools", "--no-wheel")]
sys.argv = ["pip", "install", "--ignore-installed", *options]
runpy.run_module("pip", run_name="__main__")
