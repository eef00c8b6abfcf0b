# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put paramiko into FOLDER/python and the collection community.proxmox into FOLDER/collections, from the Python package index.

usage: fetch.py FOLDER
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WANTED = "ansible_collections/community/proxmox/"


def main(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--target", str(folder / "python"), "paramiko"], check=True)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([*pip, "download", "--no-deps", "--dest", work, "ansible==12.3.0"], check=True)
        with zipfile.ZipFile(next(Path(work).glob("ansible-*.whl"))) as wheel:
            wheel.extractall(folder / "collections", [name for name in wheel.namelist() if name.startswith(WANTED)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
