# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rows of rules_engine.py need beyond an expression: values to read, conditions to check, causes to choose.

Every function takes (match, line, context). Parsers return values, conditions return whether the row applies, choosers a cause.
"""

from __future__ import annotations

import re
from typing import Any

from . import service_facts
from .context import Context
from .text import Line, shorten

_NUMERIC = frozenset(
    {"port", "pid", "rank", "cuda_error", "watchdog_timeout_s", "max_target_layer_id", "target_num_layers"}
)

CUDA_ERRORS = {
    "cudaErrorMemoryAllocation": 2,
    "cudaErrorStubLibrary": 34,
    "cudaErrorInsufficientDriver": 35,
    "cudaErrorNoDevice": 100,
    "cudaErrorInvalidDevice": 101,
    "cudaErrorNoKernelImageForDevice": 209,
    "cudaErrorECCUncorrectable": 214,
    "cudaErrorUnsupportedPtxVersion": 222,
    "cudaErrorIllegalAddress": 700,
    "cudaErrorAssert": 710,
    "cudaErrorLaunchFailure": 719,
    "cudaErrorSystemNotReady": 802,
    "cudaErrorSystemDriverMismatch": 803,
    "cudaErrorCompatNotSupportedOnDevice": 804,
    "cudaErrorUnknown": 999,
}
# First branch that brought a CUDA level, newest first (release notes of the branches).
_CUDA_OF_BRANCH = (
    (610, "13.3"),
    (595, "13.2"),
    (590, "13.1"),
    (580, "13.0"),
    (575, "12.9"),
    (570, "12.8"),
    (565, "12.7"),
    (560, "12.6"),
    (555, "12.5"),
    (550, "12.4"),
    (545, "12.3"),
    (535, "12.2"),
    (530, "12.1"),
    (525, "12.0"),
    (520, "11.8"),
    (515, "11.7"),
    (510, "11.6"),
    (495, "11.5"),
    (470, "11.4"),
    (450, "11.0"),
)
# ('0.0.0.0', 30000), port: 29500, tcp://127.0.0.1:5555, [::]:8000
_PORT = re.compile(
    r"\('[^']*', (\d{2,5})\b|\b[Pp]ort['\"]?[ =:(]+(\d{2,5})\b|(?:\d\.\d+\.\d+\.\d+|localhost|\]|\*):(\d{2,5})\b"
)
_CUDA_NUMBER = re.compile(
    r"\b[Ee]rror (\d{1,3}): |CUDA error(?: code)?[ =:(]+(\d{1,3})\b|Cuda failure (\d{1,3})\b|\bcudaError_t? ?\(?(\d{1,3})\b"
)


DRAFTER_OPTIONS = (
    "--speculative-draft-model-path",
    "--speculative-draft-model",
    "--drafter",
    "--draft-model-path",
    "--speculative-config",
)


# --- values ---------------------------------------------------------------------------------------------------------
def named(match: re.Match, _line: Line | None = None, _ctx: Context | None = None) -> dict[str, Any]:
    """The named groups that matched. C(name2) is C(name) of another alternative; known numbers become numbers."""
    result: dict[str, Any] = {}
    for group, text in match.groupdict().items():
        key = group.rstrip("0123456789")
        if text is not None:
            result[key] = int(text) if key in _NUMERIC else text.rstrip(".,;:")
    return result


def nothing(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """No values: the groups serve the choice of the cause."""
    return {}


def cuda_number(text: str) -> int | None:
    """The CUDA error number that a line gives, by number or by name."""
    found = _CUDA_NUMBER.search(text)
    if found:
        return int(next(group for group in found.groups() if group))
    found = re.search(r"\b(cudaError[A-Za-z]+)\b", text)
    return CUDA_ERRORS.get(found.group(1)) if found else None


def cuda(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """Named groups and the CUDA error number."""
    code = cuda_number(line.text)
    return {**named(match), **({} if code is None else {"cuda_error": code})}


def driver_level(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """What the wheels need and what the driver offers, from "found version 12080" or the driver's branch."""
    parsed = cuda(match, line, ctx)
    found = re.search(r"found version (\d+)", line.text)
    if found:
        level = int(found.group(1))
        parsed["driver_cuda"] = f"{level // 1000}.{level % 1000 // 10}"
    elif ctx.driver.get("cuda_version"):
        parsed["driver_cuda"] = ctx.driver["cuda_version"]
    return parsed


def cuda_of_driver(version: str) -> str | None:
    """CUDA level of a driver version."""
    branch = int(version.split(".", maxsplit=1)[0])
    return next((level for first, level in _CUDA_OF_BRANCH if branch >= first), None)


def required_cuda(packages: dict[str, str]) -> str | None:
    """CUDA level that the torch wheel among I(packages) was built for."""
    found = re.search(r"\+cu(\d{2,3})$", packages.get("torch", ""))
    if found:
        return f"{found.group(1)[:-1]}.{found.group(1)[-1]}"
    for name, version in packages.items():
        if re.match(r"nvidia[-_]cuda[-_]runtime(?:[-_]cu\d+)?$", name):
            return ".".join(version.split(".")[:2])
    return None


def architecture(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """GPU architecture and compute capability as a line or the GPU's own facts give them."""
    parsed = cuda(match, line, ctx)
    own = re.search(r"CUDA capability (?:sm_)?(\d+)\.?(\d)?\b(?=[^\n]*is not compatible)", line.text)
    found = re.search(r"\b(?:sm|compute)_(\d{2,3}[a-f]?)\b", line.text)
    if own and own.group(2):
        parsed["compute_capability"] = f"{own.group(1)}.{own.group(2)}"
    if found and "gpu_arch" not in parsed:
        parsed["gpu_arch"] = f"sm_{found.group(1)}"
    current = re.search(r"Current capability: (\d+)(\d)\b", line.text)
    if current:
        parsed.setdefault("compute_capability", f"{current.group(1)}.{current.group(2)}")
    arch = re.match(r"sm_(\d+)(\d)[a-f]?$", parsed.get("gpu_arch", ""))
    if arch and not ctx.driver.get("compute_capability"):
        parsed.setdefault("compute_capability", f"{arch.group(1)}.{arch.group(2)}")
    return parsed


def nvcc_architecture(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """nvcc says compute_120, ptxas says sm_120."""
    parsed = named(match)
    if "arch_number" in parsed:
        parsed["gpu_arch"] = f"sm_{parsed.pop('arch_number')}"
    return parsed


def symbol(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """The missing symbol and the library that wants it, as a path below site-packages."""
    parsed = named(match)
    path = parsed.get("library", "")
    for packages in ("site-packages/", "dist-packages/"):
        if packages in path:
            parsed["library"] = path.split(packages, 1)[1]
    return parsed


def tool(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """The missing program, and whether it lies in the virtual environment that PATH leaves out."""
    parsed = named(match)
    name = parsed.setdefault("tool", _tool_of(line.text))
    seen = "\n".join(ctx.text(channel) for channel in ctx.channels if channel.startswith("stat_"))
    if name and seen:
        parsed["in_venv"] = re.search(rf"^/\S+/bin/{re.escape(name)}$", seen, re.M) is not None
    return parsed


def _tool_of(text: str) -> str:
    low = text.lower()
    named_here = next((name for name in ("ninja", "nvcc", "ptxas", "g++", "gcc") if name in low), None)
    return named_here or (
        "nvcc" if re.search(r"cuda[_ ](?:home|path|root|toolkit|compiler|installation)|cmake_cuda", low) else "cc"
    )


_STEP = re.compile(r"(?<![\w.-])((?:\w+-)*(?:nvcc|g\+\+|gcc|cc|c\+\+|clang|clang\+\+)(?:-[\d.]+)?) +-")


def _step(line: Line, ctx: Context) -> str:
    """The compiler of the command that ninja prints below a failed step."""
    found = _STEP.search(ctx.logs[line.channel].following(line, 8))
    return found.group(1) if found else ""


def failed_step(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """The compiler that ninja could not start."""
    return {"tool": _step(line, ctx)}


def address(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """The port in question and who listens on it."""
    parsed = named(match)
    if "port" not in parsed:
        found = _PORT.search(shorten(line.text))
        option = ctx.options.get("--port", "")
        if found:
            parsed["port"] = int(next(group for group in found.groups() if group))
        elif option.isdigit():
            parsed["port"] = int(option)
    return {**parsed, **(service_facts.listeners(ctx.text("ss_listen")).get(parsed.get("port", -1)) or {})}


def model(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """Path or hub name of the missing model, and whether target or drafter is meant."""
    name = model_name(match, line, ctx)
    parsed: dict[str, Any] = {}
    if name:
        parsed["path" if _is_path(name) else "repo_id"] = name
        parsed["role"] = "draft" if is_drafter(name, ctx) else "target"
    return parsed


_HUB_ADDRESS = re.compile(
    r"https?://[^/\s'\"]*(?:hugging|hf-mirror|modelscope)[^/\s'\"]*/(?:api/models/)?(?!api/|docs/|models\b)([\w.-]+/[\w.-]+?)(?=[/\s:,;)'\"?]|$|\.(?:\s|$))"
)


def model_name(match: re.Match, line: Line, ctx: Context) -> str:
    """The model that a line names, in a group called name or in a hub address; else the address in the lines after it."""
    name = named(match).get("name", "")
    if not name:
        found = _HUB_ADDRESS.search(line.text) or _HUB_ADDRESS.search(ctx.logs[line.channel].following(line, 4))
        name = found.group(1) if found else ""
    name = name.strip("'\"`")
    return name.rstrip("/") or name


def _is_path(name: str) -> bool:
    return name.startswith(("/", "./", "../", "~"))


def is_drafter(name: str, ctx: Context) -> bool:
    """Whether I(name) lies in what the arguments give as the drafter."""
    target = (ctx.options.get("--model-path") or ctx.options.get("--model") or "").rstrip("/")
    for option in DRAFTER_OPTIONS:
        draft = (ctx.options.get(option) or "").rstrip("/")
        if draft and draft != target and (name == draft or name.startswith(draft + "/")):
            return True
    if not any(option in ctx.options for option in DRAFTER_OPTIONS) and target != name:
        # Without arguments to go by, published drafters carry what they are in their names.
        return re.search(r"d-?flash|draft|eagle", name.rsplit("/", 1)[-1], re.I) is not None
    config = re.search(r"--speculative-config\s+'?(\{.*?\})'?(?:\s|$)", ctx.text("server_args"))
    return bool(config and name and f'"{name}"' in config.group(1))


def key_values(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """The name=number pairs of a message (page_size=64)."""
    pairs = {key: int(item) for key, item in re.findall(r"\b([a-z][a-z_]+)\s*=\s*(\d+)\b(?!\.\d)", line.text)}
    tap = re.search(r"target_layer_ids\[\d+\]\s*=\s*(\d+)", line.text)
    if tap:
        pairs["max_target_layer_id"] = int(tap.group(1))
    return {**named(match), **pairs}


def option(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """The option at fault and the pairs of its message."""
    parsed = key_values(match, line, ctx)
    if "options" in parsed:
        parsed["option"] = re.split(r",\s*|\s+", parsed.pop("options").strip())[0]
    if "option" not in parsed:
        found = re.search(r"(--[a-z][a-z0-9-]+)", line.text)
        if found:
            parsed["option"] = found.group(1)
    if "/" in parsed.get("option", ""):
        parsed["option"] = next((o for o in parsed["option"].split("/") if o.startswith("--")), parsed["option"])
    if "=" in parsed.get("option", ""):
        parsed["option"], parsed["value"] = parsed["option"].split("=", 1)
    return parsed


def nccl(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """The CUDA error that a later line of the same NCCL report gives."""
    log = ctx.logs[line.channel]
    near = log.text[max(ctx.starts[line.channel], line.position - 4000) : line.position + 4000]
    found = re.search(r"Cuda failure (\d+) '", near)
    return {**named(match), **({"cuda_error": int(found.group(1))} if found else {})}


def own_model(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """Path and role where ddtree names a directory or a file in it."""
    parsed = model(match, line, ctx)
    if "drafter directory" in line.text:
        parsed["role"] = "draft"
    return parsed


def own_option(match: re.Match, line: Line, ctx: Context) -> dict[str, Any]:
    """The option at fault, the backend and the page size of the plugin's refusals."""
    parsed = option(match, line, ctx)
    backend = re.search(r"got attention backend (\w+)", line.text)
    page = re.search(r"got --page-size (\d+)", line.text)
    if backend:
        parsed["backend"] = backend.group(1)
    if page:
        parsed.update(option="--page-size", page_size=int(page.group(1)))
    return parsed


# --- conditions -----------------------------------------------------------------------------------------------------
def driver_new_enough(match: re.Match, line: Line, ctx: Context) -> bool:
    """The driver supports the wheels' CUDA level, so "too old" means that another libcuda was found first."""
    have = ctx.driver.get("cuda_version")
    if not have and ctx.driver.get("driver_version"):
        have = cuda_of_driver(ctx.driver["driver_version"])
    need = required_cuda(ctx.packages)
    if not have or not need:
        return False
    # Within one major version newer minor levels run on older drivers.
    return int(have.split(".", maxsplit=1)[0]) >= int(need.split(".", maxsplit=1)[0])


def driver_not_known_new_enough(match: re.Match, line: Line, ctx: Context) -> bool:
    """The opposite of L(driver_new_enough, driver_new_enough)."""
    return not driver_new_enough(match, line, ctx)


def shm_segment(match: re.Match, line: Line, ctx: Context) -> bool:
    """A shared-memory error means "too small" unless access was denied or there is plenty of room."""
    near = ctx.logs[line.channel].following(line, 2)
    if re.search(r"Permission denied|\(13\)|Errno 13", near):
        return False
    if re.search(r"No space left|\(28\)|Errno 28", near):
        return True
    size = service_facts.shm_size(ctx.text("df_shm"))
    return size is None or size[1] < 1 << 16


_SHM_WORDS = re.compile(r"/dev/shm|shared_memory|(?<![A-Za-z])shm(?![a-z])|</torch_\d")


def shm_space(match: re.Match, line: Line, ctx: Context) -> bool:
    """No space left: on /dev/shm, by the lines around it or by df."""
    log = ctx.logs[line.channel]
    near = log.text[max(ctx.starts[line.channel], line.position - 1500) : line.position + len(line.text)]
    if ("shm" in near or "shared_memory" in near or "</torch_" in near) and _SHM_WORDS.search(near):
        return True
    size = service_facts.shm_size(ctx.text("df_shm"))
    if size is None:
        return False
    elsewhere = re.search(r"'/(?!dev/shm)|\s/(?!dev/shm)\w+/", shorten(line.text))
    return size[1] < 4096 or (size[0] <= 1 << 16 and elsewhere is None)


def shm_bus_error(match: re.Match, line: Line, ctx: Context) -> bool:
    """A bus error is one of shared memory where it says so or where df shows it full or tiny."""
    size = service_facts.shm_size(ctx.text("df_shm"))
    named_there = re.search(r"\bshm\b|shared memory", line.text, re.I) is not None
    return named_there or (size is not None and (size[1] < 4096 or size[0] <= 1 << 16))


def runs_a_compiler(match: re.Match, line: Line, ctx: Context) -> bool:
    """The failed step of a build begins with a compiler."""
    return bool(_step(line, ctx))


def memlock_bounded(match: re.Match, line: Line, ctx: Context) -> bool:
    """The unit's locked-memory limit is not known to be unlimited."""
    limit = ctx.unit.get("LimitMEMLOCKSoft") or ctx.unit.get("LimitMEMLOCK") or ""
    return limit != "infinity" and not (limit.isdigit() and int(limit) > 1 << 40)


def address_space_bounded(match: re.Match, line: Line, ctx: Context) -> bool:
    """The unit has a limit on its address space."""
    return (ctx.unit.get("LimitASSoft") or ctx.unit.get("LimitAS") or "").isdigit()


def of_draft_architecture(match: re.Match, line: Line, ctx: Context) -> bool:
    """The unsupported architecture is the drafter's, not the target's."""
    name = named(match).get("architecture", "")
    drafts = ctx.draft_config.get("architectures") or []
    targets = ctx.target_config.get("architectures") or []
    if name in drafts:
        return True
    if name in targets:
        return False
    return re.search(r"DFlash|DDTree|Draft|Eagle|MTP|Medusa|NextN|DSpark", name) is not None


def model_file(match: re.Match, line: Line, ctx: Context) -> bool:
    """A missing file is a missing model where the path belongs to one."""
    name = named(match).get("name", "")
    if re.search(r"/(?:bin|sbin|lib|lib64|proc|sys|dev|etc|tmp|run)/|\.(?:py|so|sock|cu|cuh|h|cpp|log)\b", name):
        return False
    configured = [ctx.options.get(o, "") for o in ("--model-path", "--model", "--tokenizer-path", "--drafter")]
    if any(path and name.startswith(path.rstrip("/")) for path in configured) or is_drafter(name, ctx):
        return True
    words = r"(?:config|tokenizer\w*|generation_config|preprocessor_config)\.json|\.safetensors|\.gguf|pytorch_model|[Mm]odel|[Dd]raft|weights|checkpoint"
    return re.search(words, name) is not None


def starts_a_process(match: re.Match, line: Line, ctx: Context) -> bool:
    """The traceback just above ends where a process or thread is started; locks, sockets and pipes answer EAGAIN as well."""
    log = ctx.logs[line.channel]
    above = log.text[max(ctx.starts[line.channel], line.position - 1000) : line.position]
    frames = re.split(r'File "', above)[-2:] if 'File "' in above else []
    words = (
        r"\bos\.fork|fork_exec|popen_fork|popen_spawn|spawnv|_execute_child|start_(?:new|joinable)_thread|\b[Ff]ork\b"
    )
    return re.search(words, "".join((*frames, line.text))) is not None


def without_a_way_out(match: re.Match, line: Line, ctx: Context) -> bool:
    """The container's banner goes on to say that CUDA's compatibility libraries cannot bridge the gap."""
    return re.search(r"compatibility mode is (?:UN|un)", ctx.logs[line.channel].following(line, 3)) is not None


def of_wheels(match: re.Match, line: Line, ctx: Context) -> bool:
    """SGLang lists below its headline what each attempt ended with; a library of the system that is missing is no matter of wheels."""
    missing = re.findall(r"(lib[\w+-]+)\.so[.\d]*: cannot open shared", ctx.logs[line.channel].following(line, 30))
    return "common_ops" not in line.text or not missing or any(re.match(_WHEEL_LIBRARIES, name) for name in missing)


def hub_not_disk(match: re.Match, line: Line, ctx: Context) -> bool:
    """A download that failed for another reason than a full disk."""
    return not re.search(r"os error 28|[Nn]o space left", line.text)


def drafter_without_type(match: re.Match, line: Line, ctx: Context) -> bool:
    """The configuration that names no model type is the drafter's."""
    return is_drafter(model_name(match, line, ctx), ctx)


def in_drafter_code(match: re.Match, line: Line, ctx: Context) -> bool:
    """Shapes that differ where the traceback just above runs through a drafter's code."""
    log = ctx.logs[line.channel]
    above = log.text[max(ctx.starts[line.channel], line.position - 1500) : line.position + len(line.text)]
    files = re.findall(r'File "([^"]*)", line \d+, in (\w+)', above)
    return any(
        re.search(r"dflash|ddtree|dspark|draft|eagle|combine_hidden", f"{path} {name}", re.I)
        for path, name in files[-6:]
    )


def of_configuration_class(match: re.Match, line: Line, ctx: Context) -> bool:
    """A refused configuration of the server, not of a request."""
    log = ctx.logs[line.channel]
    above = log.text[max(ctx.starts[line.channel], line.position - 600) : line.position + len(line.text)]
    refused = re.findall(r"validation errors? for (\w+)", above)
    return not refused or re.search(r"(?:Config|Args)$", refused[-1]) is not None


def no_option(match: re.Match, line: Line, ctx: Context) -> bool:
    """A statement on a configuration, not on an option of the command line."""
    return "--" not in line.text and "speculative decoding" not in line.text


def no_better_reading(match: re.Match, line: Line, ctx: Context) -> bool:
    """A drafter's configuration is blamed only where the line names no argument, layer, mask or head."""
    words = (
        r"target_layer_ids|mask_token|--|out-of-range|hidden|lm_head|speculative decoding|attention_backend|page_size"
    )
    return re.search(words, line.text) is None


def of_configuration(match: re.Match, line: Line, ctx: Context) -> bool:
    """The block size of the configuration, not of an argument."""
    return re.search(r"--speculative|speculative_num_draft_tokens|speculative_dflash_block_size", line.text) is None


def not_mask(match: re.Match, line: Line, ctx: Context) -> bool:
    """The vocabulary itself, not the mask token's place in it."""
    return re.search(r"mask_token|mask token", line.text) is None


def not_an_argument(match: re.Match, line: Line, ctx: Context) -> bool:
    """A statement on the GPU, not a refusal of an argument or backend."""
    return re.search(r"--[a-z]|[Bb]ackend|kv.cache", line.text) is None


# --- causes ---------------------------------------------------------------------------------------------------------
_WHEEL_LIBRARIES = r"lib(?:cu|nv|nccl|torch|c10|sgl|flash)"


def cause_of_symbol(match: re.Match, line: Line, ctx: Context) -> str | None:
    """Two NCCL wheels in one environment."""
    wheels = [name for name in ctx.packages if re.match(r"nvidia[-_]nccl[-_]cu\d+$", name)]
    return "duplicate_nccl" if len(wheels) > 1 and "nccl" in line.text.lower() else None


def cause_of_tool(match: re.Match, line: Line, ctx: Context) -> str:
    """ninja, nvcc or compiler."""
    name = named(match).get("tool") or _tool_of(line.text)
    if name in ("ninja", "nvcc"):
        return name
    # What nvcc brings along.
    return "nvcc" if re.match(r"cicc|ptxas|fatbinary|nvlink|cudafe", name) else "compiler"


def cause_of_failed_step(match: re.Match, line: Line, ctx: Context) -> str:
    """nvcc or a host compiler."""
    return "nvcc" if _step(line, ctx) == "nvcc" else "compiler"


def cause_of_arch(match: re.Match, line: Line, ctx: Context) -> str | None:
    """ptxas is Triton's own; that nvcc does not know an architecture has no finer cause."""
    return "ptxas" if "gpu-name" in line.text or "ptxas" in line.text else None


def cause_of_port(match: re.Match, line: Line, ctx: Context) -> str:
    """Whether the HTTP port or a port of the ranks' rendezvous is taken."""
    log = ctx.logs[line.channel]
    near = log.text[max(0, line.position - 300) : line.position + len(line.text)]
    words = r"TCPStore|DistNetworkError|DistStoreError|dist_init|nccl_port|rendezvous|init_process_group|master_port|port_base|detokenizer_port|zmq"
    if re.search(words, line.text) or re.search(r"TCPStore|server socket|init_process_group|zmq", near):
        return "rendezvous"
    return "http"


def cause_of_model(match: re.Match, line: Line, ctx: Context) -> str:
    """Path, drafter, or hub."""
    name = model_name(match, line, ctx)
    if name and is_drafter(name, ctx):
        return "draft"
    if _is_path(name):
        return "path"
    offline = ctx.environment.get("HF_HUB_OFFLINE", "") or ctx.environment.get("TRANSFORMERS_OFFLINE", "")
    if offline.lower() in ("1", "true", "on", "yes") or re.search(
        r"offline|outgoing traffic has been disabled", line.text, re.I
    ):
        return "hub_offline"
    return "hub_unreachable" if name or "hf" in line.text.lower() or "hugging" in line.text.lower() else "path"


def cause_of_pair(match: re.Match, line: Line, ctx: Context) -> str:
    """Whether the number of tapped layers or the hidden size differs."""
    expected = re.search(r"num_context_features=(\d+), hidden_size=(\d+)", line.text)
    got = re.search(r"but got (?:shape=)?\((?:\d+, )?(\d+)(?:, (\d+))?\)", line.text)
    if expected and got:
        hidden = int(expected.group(2))
        width = int(got.group(got.lastindex or 1))
        return "target_layer_ids" if width % hidden == 0 else "hidden_size"
    return "target_layer_ids"


def cause_of_shapes(match: re.Match, line: Line, ctx: Context) -> str:
    """Whole features are missing, or their width is another one."""
    given, hidden = match.groupdict().get("given"), match.groupdict().get("hidden")
    if given and hidden and int(given) % int(hidden) == 0:
        return "target_layer_ids"
    return "hidden_size"


def cause_of_oom(match: re.Match, line: Line, ctx: Context) -> str | None:
    """In which stage of the start the memory ran out."""
    if re.search(r"NCCL|nccl|Cuda failure", line.text):
        return "nccl"
    if re.search(r"[Cc]apture|cuda.?graph", line.text):
        return "graph_capture"
    log = ctx.logs[line.channel]
    window = log.text[max(ctx.starts[line.channel], line.position - 200_000) : line.position]
    stages = (
        ("graph_capture", r"Capture (?:\w+ )*cuda graph begin|Capturing (?:batches|CUDA graph)"),
        (
            None,
            r"Capture (?:\w+ )*cuda graph end|Graph capturing finished|fired up and ready|Application startup complete",
        ),
        (
            "load",
            r"Load weight begin|Starting to load model|Loading (?:safetensors|pt) checkpoint|Loading checkpoint shards",
        ),
        (None, r"Load weight end|Loading weights took|Model loading took"),
    )
    last, cause = -1, None
    for name, pattern in stages:
        for found in re.finditer(pattern, window):
            if found.start() > last:
                last, cause = found.start(), name
    if re.search(r"Capture (?:\w+ )*cuda graph failed", log.text[line.position : line.position + 8000]):
        return "graph_capture"
    return cause


def cause_of_nccl_system(match: re.Match, line: Line, ctx: Context) -> str | None:
    """Access to /dev/shm was denied."""
    log = ctx.logs[line.channel]
    near = log.text[max(ctx.starts[line.channel], line.position - 8000) : line.position + 8000]
    denied = re.search(r"(?:shm_open|/dev/shm|shared memory)[^\n]*(?:Permission denied|\(13\))", near)
    mode = re.search(r"^(\d{3,4})\s+\S+\s+\S+\s+/dev/shm", ctx.text("stat_shm"), re.M)
    return "shm_permission" if denied or (mode and mode.group(1) not in ("1777", "777")) else None


_ARGUMENT_CAUSES = (
    (
        "unknown_option",
        r"unrecognized arguments?|[Nn]o such option|[Uu]nknown (?:option|speculative)|unexpected keyword|invalid choice|ambiguous option"
        r"|KeyError: '|type=(?:literal_error|enum)",
    ),
    (
        "missing_option",
        r"the following arguments are required|requires setting|must be (?:set|specified|provided)|is required\b|expected one argument",
    ),
    ("attention_backend", r"attention[ _-]?backend(?![\w-]*=)"),
)
_BAD_VALUE = re.compile(r"invalid \w+ value|must be (?:positive|>=|between|one of|a )|to be positive")


def cause_of_arguments(match: re.Match, line: Line, ctx: Context) -> str | None:
    """Sorts a refused argument by what the message says about it; a bad value of one option has no finer cause."""
    fallback = None if _BAD_VALUE.search(line.text) else "incompatible"
    return next((cause for cause, words in _ARGUMENT_CAUSES if re.search(words, line.text)), fallback)


def cause_of_own_model(match: re.Match, line: Line, ctx: Context) -> str:
    """Target or drafter, by ddtree's words or the arguments."""
    return "draft" if "drafter directory" in line.text else cause_of_model(match, line, ctx)


def cause_of_own_pair(match: re.Match, line: Line, ctx: Context) -> str:
    """In what drafter and target differ."""
    return (
        "hidden_size"
        if "hidden size" in line.text
        else "vocab_size"
        if "vocabulary" in line.text
        else "target_layer_ids"
    )


def cause_of_own_config(match: re.Match, line: Line, ctx: Context) -> str | None:
    """The key of the drafter's configuration that is wrong or missing."""
    words = (("target_layer_ids", "target_layer_ids_missing"), ("mask", "mask_token"), ("block_size", "block_size"))
    return next((cause for word, cause in words if word in line.text), None)


def cause_of_own_arguments(match: re.Match, line: Line, ctx: Context) -> str | None:
    """Sorts the refusals of ddtree.server and of the plugin."""
    text = line.text
    if "unknown algorithm" in text:
        return "unknown_option"
    if re.search(r"needs (?:a |--)?(?:DFlash )?drafter", text):
        return "missing_option"
    if "attention backend" in text:
        return "attention_backend"
    return None if re.search(r"must be at least|is not between|is below", text) else "incompatible"


def stalled_in(match: re.Match, line: Line, ctx: Context) -> str:
    """Which stage a watchdog's line, or the last stage before it, points to."""
    log = ctx.logs[line.channel]
    return stage_cause(log.text[ctx.starts[line.channel] : line.position]) or "forward"


def stage_cause(window: str) -> str | None:
    """The stalled stage by the last stage line of I(window); None where start-up was over or nothing is known."""
    stages = (
        ("nccl_init", r"Init torch distributed begin|sglang is using nccl==|backend=nccl|ncclCommInitRank|Init START"),
        ("", r"Load weight begin|Starting to load model|Loading (?:safetensors|pt) checkpoint"),
        ("graph_capture", r"Capture (?:\w+ )*cuda graph begin|Capturing (?:batches|CUDA graph)"),
        ("", r"Init torch distributed ends|Load weight end|Capture (?:\w+ )*cuda graph end|Model loading took"),
        ("forward", r"fired up and ready|Application startup complete|(?:Prefill|Decode) batch"),
    )
    last, cause = -1, None
    for name, pattern in stages:
        for found in re.finditer(pattern, window[-400_000:]):
            if found.start() > last:
                last, cause = found.start(), name or None
    return cause
