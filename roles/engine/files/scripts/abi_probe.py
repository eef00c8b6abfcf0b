# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by a release's own Python: what its compiled parts, the driver and the GPUs say when they are loaded together.

Prints JSON objects, one a line and each one flushed, so that a crash in native code still leaves what came before. Judges
nothing (that is module_utils/_engine/abi.py), opens no CUDA context by itself, and writes nothing.

    usage: python -B - MODULE [MODULE ...] < abi_probe.py
"""

from __future__ import annotations

import ctypes
import importlib
import json
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
import traceback
from pathlib import Path

FATBIN = b"\x50\xed\x55\xba"
COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR = 75, 76


def tell(kind: str, **values: object) -> None:
    print(json.dumps({"kind": kind, **values}), flush=True)


def imports(names: list[str]) -> None:
    for name in names:
        tell("importing", name=name)
        try:
            module = importlib.import_module(name)
        except BaseException as error:  # native code raises anything, SystemExit too
            lines = [line for line in traceback.format_exception_only(type(error), error) if line.strip()]
            tell("import", name=name, ok=False, error="".join(lines).strip()[-2000:])
        else:
            tell("import", name=name, ok=True, version=str(getattr(module, "__version__", "")))


def torch_build() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        tell(
            "torch",
            cuda=torch.version.cuda,
            architectures=torch._C._cuda_getArchFlags().split() if cuda_built(torch) else [],
        )


def cuda_built(torch: object) -> bool:
    return hasattr(torch._C, "_cuda_getArchFlags")


def libraries() -> None:
    """Shared libraries of which two copies in one process, or a stand-in, are a fault of their own."""
    paths = set()
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            match = re.search(r"(/\S*/lib(?:nccl|cuda|cudart)\.so[.\d]*)$", line.rstrip())
            if match:
                paths.add(os.path.realpath(match.group(1)))
    tell("libraries", loaded=sorted(paths))


def driver() -> None:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        tell("driver", cuda=None, error=str(error))
        return
    version = ctypes.c_int(0)
    status = cuda.cuDriverGetVersion(ctypes.byref(version))
    tell("driver", cuda=version.value if status == 0 else None, status=status, error=None)
    status = cuda.cuInit(0)
    tell("init", status=status)
    count = ctypes.c_int(0)
    if status == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0:
        for index in range(count.value):
            device = ctypes.c_int(0)
            cuda.cuDeviceGet(ctypes.byref(device), index)
            name = ctypes.create_string_buffer(256)
            cuda.cuDeviceGetName(name, 256, device)
            numbers = []
            for attribute in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR):
                value = ctypes.c_int(0)
                cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
                numbers.append(value.value)
            tell("device", index=index, name=name.value.decode(errors="replace"), capability=numbers)


def kernels() -> None:
    """GPU architectures inside the compiled kernels, from the headers of their fat binaries."""
    module = sys.modules.get("sgl_kernel")
    site = Path(module.__file__).parent if module is not None and module.__file__ else None
    if site is None:
        candidates = [Path(entry) / "sgl_kernel" for entry in sys.path if entry]
        site = next((path for path in candidates if path.is_dir()), None)
    for path in sorted(site.glob("sm*/common_ops*.so")) if site else ():
        tell("kernels", file=f"{path.parent.name}/{path.name}", architectures=architectures(path))


def architectures(path: Path) -> list[str]:
    """``sm_80`` for machine code, ``compute_80`` for PTX, of each entry in each fat binary of a library."""
    found = set()
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(FATBIN)
        while start != -1:
            found |= fatbin_entries(content, start)
            start = content.find(FATBIN, start + 4)
    return sorted(found)


def fatbin_entries(content: mmap.mmap, start: int) -> set[str]:
    found: set[str] = set()
    if start + 16 > len(content):
        return found
    dummy, version, header, size = struct.unpack_from("<IHHQ", content, start)
    if version != 1 or header != 16:
        return found
    position, end = start + header, min(start + header + size, len(content))
    while position + 64 <= end:
        kind, dummy, header, size = struct.unpack_from("<HHIQ", content, position)
        (architecture,) = struct.unpack_from("<I", content, position + 28)
        if kind not in (1, 2) or header < 32:
            break
        found.add(f"{'compute' if kind == 1 else 'sm'}_{architecture}")
        position += header + size
    return found


def tools() -> None:
    """What compiles kernels at run time, looked for on the PATH that the unit will have."""
    for name in ("ninja", "nvcc", "ptxas", "g++"):
        path = shutil.which(name)
        version = None
        if path and name in ("nvcc", "ptxas"):
            shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
            match = re.search(r"release (\d+\.\d+)", shown.stdout)
            version = match and match.group(1)
        tell("tool", name=name, path=path, version=version)
    for site in (Path(entry) for entry in sys.path if entry.endswith("site-packages")):
        for path in sorted(site.glob("nvidia/cu*/bin/nvcc")):
            tell("carried", name="nvcc", path=str(path))
        for path in sorted(site.glob("triton/backends/nvidia/bin/ptxas*")):
            tell("carried", name="ptxas", path=str(path))


def main() -> None:
    tell("begin", python=".".join(map(str, sys.version_info[:3])))
    tools()
    driver()
    imports(sys.argv[1:])
    torch_build()
    kernels()
    libraries()
    tell("end")


if __name__ == "__main__":
    main()
