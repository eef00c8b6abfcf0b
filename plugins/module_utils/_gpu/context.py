# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the driver works: initialise NVML, open a CUDA context on one GPU. Private to this collection.

Through ctypes, so that the proof needs no package on the host. Everything runs in a child: a driver fault can hang or kill it.
"""

from __future__ import annotations

import ctypes
import os
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import isolated

_BUSY = 46  # CUDA_ERROR_DEVICE_UNAVAILABLE: an exclusive GPU is in use
_OUT_OF_MEMORY = 2


def _open(uuid: str | None, library: str) -> dict[str, t.Any]:
    if uuid:
        # The driver then opens this GPU only; the others are not touched.
        os.environ["CUDA_VISIBLE_DEVICES"] = uuid
    try:
        cuda = ctypes.CDLL(library)
    except OSError as error:
        return {"ok": None, "cuda_error": None, "reason": f"{library} cannot be loaded: {error}"}

    def failed(step: str, code: int) -> dict[str, t.Any]:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        detail = (text.value or b"unknown error").decode()
        return {"ok": False, "cuda_error": code, "reason": f"{step}: error {code}, {detail}"}

    code = cuda.cuInit(0)
    if code:
        return failed("cuInit", code)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    code = cuda.cuDeviceGet(ctypes.byref(device), 0)
    if code:
        return failed("cuDeviceGet", code)
    # The primary context is what every framework uses, and its entry point has not changed since CUDA 7.
    code = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    if code:
        answer = failed("cuDevicePrimaryCtxRetain", code)
        return {**answer, "ok": None} if code in (_BUSY, _OUT_OF_MEMORY) else answer
    cuda.cuDevicePrimaryCtxRelease_v2(device)
    return {"ok": True, "cuda_error": None, "reason": None}


def open_context(uuid: str | None = None, timeout: float = 30.0, library: str = "libcuda.so.1") -> dict[str, t.Any]:
    """{ok, cuda_error, reason} of opening a CUDA context on the GPU with this UUID (the first one without).

    ok is None where nothing can be concluded: no CUDA library, or the GPU is full or exclusively in use. It needs a few
    hundred MiB of GPU memory for the moment. It runs in a child: a driver fault can hang or kill a process.
    """
    answer, reason = isolated.call(lambda: _open(uuid, library), timeout)
    if answer is None:
        return {"ok": False, "cuda_error": None, "reason": f"opening a CUDA context: {reason}"}
    return answer


def _initialise(library: str) -> dict[str, t.Any]:
    try:
        nvml = ctypes.CDLL(library)
    except OSError as error:
        return {"ok": False, "code": None, "reason": f"{library} cannot be loaded: {error}"}
    nvml.nvmlErrorString.restype = ctypes.c_char_p
    code = nvml.nvmlInit_v2()
    if code:
        return {"ok": False, "code": code, "reason": f"nvmlInit: error {code}, {nvml.nvmlErrorString(code).decode()}"}
    nvml.nvmlShutdown()
    return {"ok": True, "code": 0, "reason": None}


def initialise_nvml(timeout: float = 30.0, library: str = "libnvidia-ml.so.1") -> dict[str, t.Any]:
    """{ok, code, reason} of initialising NVML."""
    answer, reason = isolated.call(lambda: _initialise(library), timeout)
    if answer is None:
        return {"ok": False, "code": None, "reason": f"initialising NVML: {reason}"}
    return answer
