# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsers for what the NVIDIA driver says and how it is versioned: text in, plain values out; nothing raises on odd text.

Private to this collection; may change without notice.

A driver version has two or three numeric components and is kept as the string that was read: 580.126.09 keeps its
zero, and no component is ever added or dropped. "Unknown" is None, never 0 and never an empty string.
"""

from __future__ import annotations

import re

VERSION = r"\d{2,4}\.\d{1,3}(?:\.\d{1,3})?"
_VERSION_ONLY = re.compile(rf"^{VERSION}$")
# Driver branches have had three digits since 2006 (100.14); packages of the same vendor with smaller numbers (CUDA
# 12.4, libnvidia-ml-dev 10.1.243, container toolkit 1.17.8) are no driver.
_DRIVER_VERSION = r"[1-9]\d{2}\.\d{1,3}(?:\.\d{1,3})?"
_DRIVER_VERSION_ONLY = re.compile(rf"^{_DRIVER_VERSION}$")
_PACKAGE_OF_DRIVER = re.compile(rf"(?:[^:]*:)?({_DRIVER_VERSION})(?:[-~+]|$)")
_MODULE_LINE = (
    r"NVIDIA UNIX\s+(?:(?P<arch>(?!Open\s)\S+)\s+)?(?P<open>Open\s+)?Kernel Module(?:\s+for\s+(?P<for_arch>\S+))?\s+"
    rf"(?P<version>{VERSION})(?=\s|$)"
)


def is_driver_version(text: str | None) -> bool:
    """True for a plain driver version of two or three components, such as 580.142 or 580.126.09."""
    return text is not None and _DRIVER_VERSION_ONLY.match(text) is not None


def plain_version(text: str | None) -> str | None:
    """A version that stands alone (/sys/module/nvidia/version, modinfo -F version); else None."""
    stripped = (text or "").strip()
    return stripped if _VERSION_ONLY.match(stripped) else None


def branch(version: str | None) -> str | None:
    """The driver branch: 580 of 580.126.09."""
    return version.split(".", 1)[0] if version else None


def same_version(left: str | None, right: str | None) -> bool | None:
    """Whether two version strings can name one driver; None when either is unknown.

    Tools before R610 print two components of three, so 580.126 and 580.126.09 can be one driver. Use this only where no
    full version is to be had: it confirms, and it never proves (570.124 is also a prefix of the other 570.124.04).
    """
    if not left or not right:
        return None
    a, b = left.split("."), right.split(".")
    shorter = min(len(a), len(b))
    return a[:shorter] == b[:shorter] and shorter >= 2


def upstream_version(package_version: str | None) -> str | None:
    """The vendor's version in a package version, without epoch and revision (3:580.126.09-0ubuntu1 -> 580.126.09)."""
    if not package_version:
        return None
    return re.split(r"[-~+]", package_version.split(":", 1)[-1], maxsplit=1)[0] or None


def package_driver_version(package_version: str | None) -> str | None:
    """The driver version that a package version carries, None for a package that is versioned otherwise."""
    # In one step, since it is asked of every package that is installed.
    match = _PACKAGE_OF_DRIVER.match(package_version or "")
    return match.group(1) if match else None


def library_version(path: str | None) -> str | None:
    """The version in the real name of a driver library (libnvidia-ml.so.580.126.09); None for a bare .so or .so.1."""
    match = re.search(rf"\.so\.({VERSION})$", path or "")
    return match.group(1) if match else None


def module_line(text: str | None) -> dict[str, str | None]:
    """The kernel module's own line, in every spelling: {version, flavour, arch}, each None when it is not there.

    Known spellings: "NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri ..." (proprietary) and "NVIDIA UNIX Open Kernel
    Module for x86_64  580.126.09  Release Build  (...)" (open). The compiler's version below it is never taken.
    """
    match = re.search(_MODULE_LINE, text) if text else None
    if not match:
        return {"version": None, "flavour": None, "arch": None}
    return {
        "version": match.group("version"),
        "flavour": "open" if match.group("open") else "proprietary",
        "arch": match.group("for_arch") or match.group("arch"),
    }


proc_version = module_line


def license_flavour(license_text: str | None) -> str | None:
    """The flavour that a module's licence tells: the open one is "Dual MIT/GPL", the proprietary one "NVIDIA"."""
    known = (license_text or "").strip().lower()
    if not known:
        return None
    if "gpl" in known:
        return "open"
    return "proprietary" if "nvidia" in known else None


def modinfo(text: str | None) -> dict[str, str | None]:
    """`modinfo nvidia` as {version, flavour, filename}."""
    fields: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, _sep, rest = line.partition(":")
        fields.setdefault(key.strip(), rest.strip())
    return {
        "version": plain_version(fields.get("version")),
        "flavour": license_flavour(fields.get("license")),
        "filename": fields.get("filename") or None,
    }


def nvml_version(text: str | None) -> str | None:
    """nvmlSystemGetNVMLVersion without the CUDA generation that leads it ("13.580.126.09" -> "580.126.09")."""
    known = (text or "").strip()
    match = re.match(r"^\d{1,2}\.(\d{3}\..+)$", known)
    return plain_version(match.group(1) if match else known)


def gpu_information(text: str | None) -> dict[str, str | None]:
    """/proc/driver/nvidia/gpus/*/information: {name, uuid, pci_bus_id, minor_number}; readable under a mismatch too."""
    fields: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, _sep, rest = line.partition(":")
        fields.setdefault(key.strip(), rest.strip())
    uuid = fields.get("GPU UUID")
    return {
        "name": fields.get("Model") or None,
        # A module that has not opened the GPU yet writes question marks.
        "uuid": uuid if uuid and "?" not in uuid else None,
        "pci_bus_id": fields.get("Bus Location") or None,
        "minor_number": fields.get("Device Minor") or None,
    }


def bus_id_key(bus_id: str | None) -> str | None:
    """One spelling of a PCI address for comparison: nvidia-smi pads the domain to eight digits, the kernel to four."""
    match = re.match(r"^(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])$", (bus_id or "").strip())
    if not match:
        return None
    domain = int(match.group(1) or "0", 16)
    return f"{domain:04x}:{match.group(2)}:{match.group(3)}.{match.group(4)}".lower()
