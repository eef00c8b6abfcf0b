# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules over what engines and their libraries print: one row per cause.

A row holds literal hints (lower case; they keep a search over megabytes cheap) and the expression that decides on a line with such
a hint. Wordings are those of SGLang, vLLM, ddtree, torch, Triton, NCCL, transformers, huggingface_hub, argparse, uvicorn and glibc.
Rows that match the same line are tried in the order given here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Union

from . import engine_parsers as p
from .context import ENGINE_CHANNELS, Context, Finding
from .text import Line, harmless, quotes, rank_of, shorten

Chooser = Callable[[re.Match, Line, Context], Union[str, None]]
Condition = Callable[[re.Match, Line, Context], bool]
Parser = Callable[[re.Match, Line, Context], "dict[str, Any]"]


@dataclass(frozen=True)
class Row:
    """A line with one of C(hints) that C(pattern) accepts, where C(when) holds, stands for C(code)."""

    code: str
    cause: str | Chooser | None
    hints: tuple[str, ...]
    pattern: re.Pattern
    tier: str = "specific"
    parse: Parser = p.named
    when: Condition | None = None
    # Some causes are only ever printed as warnings.
    any_level: bool = False


def row(code: str, cause: str | Chooser | None, hints: tuple[str, ...], *alternatives: str, **more: Any) -> Row:
    """A row whose expression is any of I(alternatives)."""
    return Row(code, cause, hints, re.compile("|".join(alternatives)), **more)


_MEMORY = (
    row(
        "shm_too_small",
        None,
        ("shared memory segment", "shared memory file", "/dev/shm/", "unable to allocate shared memory"),
        r"Error while (?:creating|attaching to) shared memory segment",
        r"failed to (?:extend|create) (?:shared memory file )?/dev/shm",
        r"Could not map /dev/shm",
        r"[Uu]nable to allocate shared memory",
        when=p.shm_segment,
    ),
    row(
        "shm_too_small",
        None,
        ("no space left on device", "errno 28", "error 28", "(28)"),
        r"No space left on device",
        r"\[?(?:Errno|Error|error) 28\b",
        r"\(28\)",
        when=p.shm_space,
    ),
    row(
        "shm_too_small",
        None,
        ("insufficient shared memory", "bus error", "out of shared memory", "sigbus", "status=7/bus"),
        r"insufficient shared memory",
        r"[Oo]ut of shared memory",
        r"[Bb]us error",
        r"SIGBUS|status=7/BUS",
        when=p.shm_bus_error,
    ),
    row(
        "ulimit_too_low",
        "memlock",
        ("ibv_",),
        r"ibv_\w+ (?:failed|returned)[^\n]*(?:Cannot allocate memory|ENOMEM|errno:? 12\b|error 12\b)",
        when=p.memlock_bounded,
    ),
    row(
        "ulimit_too_low",
        "memlock",
        ("memlock", "locked memory", "locked-in-memory", "mlock"),
        r"(?:[Ii]ncrease|[Rr]aise|[Cc]heck|exceed\w*|too (?:low|small))[^\n]*(?:memlock|MEMLOCK|locked[- ](?:in-)?memory)",
        r"(?:memlock|MEMLOCK|locked[- ](?:in-)?memory)[^\n]*(?:too (?:low|small)|limit|exceed)",
        r"\bmlock(?:all)?\b[^\n]*(?:failed|Cannot allocate)",
        when=p.memlock_bounded,
    ),
    row(
        "ulimit_too_low",
        "nofile",
        ("too many open files", "errno 24", "emfile", "open file descriptors"),
        r"[Tt]oo many open files",
        r"\[Errno 24\]",
        r"\bEMFILE\b",
        r"(?:[Ii]ncrease|[Rr]aise)[^\n]*(?:nofile|open file descriptors|ulimit -n)",
    ),
    row(
        "ulimit_too_low",
        "nproc",
        ("start new thread", "cannot fork", "pthread_create failed", "errno 11"),
        r"can't start new thread",
        r"[Cc]annot fork",
        r"pthread_create failed",
        r"\[Errno 11\]",
        r"OpenBLAS blas_thread_init: pthread_create",
    ),
    row(
        "ulimit_too_low",
        "address_space",
        ("memoryerror", "allocate memory", "failed to map segment", "std::bad_alloc", "mmap", "errno 12"),
        r"MemoryError",
        r"[Cc](?:annot|ould not|an't) allocate memory",
        r"failed to map segment",
        r"std::bad_alloc",
        r"mmap[^\n]*(?:failed|error)",
        r"\[Errno 12\]",
        when=p.address_space_bounded,
    ),
    row(
        "kv_cache_oom",
        None,
        ("mem-fraction-static", "mem_fraction_static"),
        r"Not enough (?:GPU )?memory",
        r"leaves? no (?:GPU memory|room)",
        r"too small to serve",
        r"[Pp]lease (?:try to )?increase --mem-fraction-static",
        r"Raise --mem-fraction-static",
        r"or increase --mem-fraction-static",
    ),
    row(
        "kv_cache_oom",
        None,
        ("cache", "kv pool", "max_total_num_tokens"),
        r"No available memory for the cache blocks",
        r"tokens that can be stored in (?:the )?KV cache",
        r"larger than the available KV cache memory",
        r"(?:[Nn]ot enough|[Ii]nsufficient|[Nn]o available) (?:GPU )?memory[^\n]*(?:KV|kv)[ _-]?(?:cache|pool)",
        r"(?:KV|kv)[ _-]?(?:cache|pool)[^\n]*(?:does not fit|too small|exceeds (?:the )?available|cannot be allocated)",
        r"max_total_num_tokens ?[=:] ?(?:0|-\d+)\b",
        r"KV cache is needed, which is larger",
    ),
    row(
        "kv_cache_oom",
        None,
        ("out of memory. try to lower", "alloc_req_slots"),
        r"(?:Prefill|Decode) out of memory\. Try to lower your batch size",
        r"alloc_req_slots runs out of memory",
    ),
    row(
        "gpu_oom",
        p.cause_of_oom,
        ("out of memory", "outofmemoryerror", "nv_err_no_memory", "cuda_error_out_of_memory"),
        r"CUDA (?:error: )?out of memory",
        r"OutOfMemoryError",
        r"Cuda failure(?: \d+)? 'out of memory'",
        r"CUDA_ERROR_OUT_OF_MEMORY",
        r"NV_ERR_NO_MEMORY",
        r"(?:RuntimeError|Exception|AcceleratorError|CUDAError|ERROR)\b[^\n]*out of memory",
        r"cuda\w*[^\n]*: out of memory",
    ),
    row(
        "gpu_oom",
        p.cause_of_oom,
        ("alloc_failed", "gpu memory utilization", "memory capacity is unbalanced"),
        r"(?:CUBLAS|CUDNN|CUSOLVER|CUFFT)_STATUS_ALLOC_FAILED",
        r"less than desired GPU memory utilization",
        r"memory capacity is unbalanced",
    ),
)

_CUDA = (
    row(
        "cuda_compat_conflict",
        "stub_or_preload",
        ("stub library", "error 34", "cudaerrorstublibrary"),
        r"CUDA driver is a stub library",
        r"[Ee]rror 34:",
        r"cudaErrorStubLibrary",
        parse=p.cuda,
        any_level=True,
    ),
    row(
        "cuda_compat_conflict",
        None,
        (
            "error 803",
            "error 804",
            "unsupported display driver",
            "systemdrivermismatch",
            "compatnotsupported",
            "forward compat",
        ),
        r"[Ee]rror 80[34]\b",
        r"unsupported display driver / cuda driver combination",
        r"cudaErrorSystemDriverMismatch|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        r"cudaErrorCompatNotSupported|CUDA_ERROR_COMPAT_NOT_SUPPORTED",
        r"forward compatibility was attempted",
        parse=p.cuda,
        any_level=True,
    ),
    row(
        "cuda_compat_conflict",
        "stub_or_preload",
        (
            "driver on your system is too old",
            "driver version is insufficient",
            "insufficientdriver",
            "insufficient driver",
        ),
        r"driver on your system is too old",
        r"driver version is insufficient",
        r"cudaErrorInsufficientDriver",
        parse=p.driver_level,
        when=p.driver_new_enough,
        any_level=True,
    ),
    row(
        "cuda_driver_too_old",
        None,
        (
            "driver on your system is too old",
            "driver version is insufficient",
            "insufficientdriver",
            "error 35:",
            "unsupported ptx version",
            "unsupported toolchain",
            "minimum requirement is",
            "unsatisfied condition",
            "driver version",
        ),
        r"driver on your system is too old",
        r"driver version is insufficient",
        r"cudaErrorInsufficientDriver",
        r"[Ee]rror 35:",
        r"compiled with an unsupported PTX version",
        r"provided PTX was compiled with an unsupported toolchain",
        r"CUDA Driver version found is \d+\. Minimum requirement is",
        # The container tools compare what the image asks for with the host's driver.
        r"unsatisfied condition: (?:cuda ?>=? ?(?P<required_cuda>\d+\.\d+)|driver ?>)",
        r"(?:requires?|needs?) (?:a |an )?(?:newer )?(?:NVIDIA |CUDA )?driver version (?:>=|of at least|at least)",
        parse=p.driver_level,
        when=p.driver_not_known_new_enough,
        any_level=True,
    ),
    row(
        "gpu_arch_unsupported",
        "wheel",
        (
            "no kernel image",
            "is not compatible with the current pytorch",
            "nokernelimage",
            "error 209:",
            "no_binary_for_gpu",
        ),
        r"no kernel image is available",
        r"is not compatible with the current PyTorch installation",
        r"cudaErrorNoKernelImage|CUDA_ERROR_NO_BINARY_FOR_GPU",
        r"[Ee]rror 209:",
        parse=p.architecture,
        any_level=True,
    ),
    row(
        "gpu_arch_unsupported",
        p.cause_of_arch,
        (
            "for option 'gpu-name'",
            "unsupported gpu architecture",
            "unsupported .target",
            "unsupported .version",
            "not supported on .target",
            "requires .target",
            "for --gpu-architecture",
        ),
        r"Value '(?P<gpu_arch>sm_\w+)' is not defined for option 'gpu-name'",
        r"[Uu]nsupported gpu architecture '(?:compute|sm)_(?P<arch_number>\w+)'",
        r"[Uu]nsupported \.(?:target|version)|(?:not supported on|[Rr]equires) \.target",
        r"invalid value for --gpu-architecture",
        parse=p.nvcc_architecture,
        any_level=True,
    ),
    row(
        "gpu_arch_unsupported",
        "wheel",
        (
            "compute capability",
            "cuda capability",
            "minimum capability",
            "in this architecture",
            "gpus",
            "sm_",
            "cuda arch",
            "sm1",
            "sm9",
        ),
        r"(?:[Uu]nsupported|not supported|does not support|only supports?|requires?|not built for)[^\n]*"
        r"(?:[Cc]ompute capability|CUDA [Cc]apability|\bSM ?\d\d|sm_\d\d)",
        r"[Mm]inimum capability: \d+\. Current capability: \d+",
        r"not supported in this architecture",
        r"(?:[Oo]nly (?:supports?|supported on|available on|works? on)|[Rr]equires?) [^\n]{0,30}\b(?:Volta|Turing|Ampere|Ada|Hopper|Blackwell)\b[^\n]*GPUs?\b",
        r"(?:[Cc]ompute capability|CUDA [Cc]apability|\bsm_\d\d+\w?|\bSM ?\d\d+)[^\n]*(?:not supported|unsupported|not built)",
        r"Unknown CUDA arch|No supported CUDA architectures found",
        parse=p.architecture,
        when=p.not_an_argument,
    ),
    row(
        "abi_undefined_symbol",
        p.cause_of_symbol,
        ("undefined symbol",),
        r"(?P<library>[^\s:]+\.so[\w.]*)?:? ?undefined symbol: (?P<symbol>[\w@.]+)",
        parse=p.symbol,
        any_level=True,
    ),
    row(
        "abi_undefined_symbol",
        None,
        ("' not found (required by",),
        r"version `(?P<symbol>[\w.]+)' not found \(required by (?P<library>[^)\s]+)\)",
        parse=p.symbol,
    ),
    row(
        "abi_undefined_symbol",
        None,
        (
            "cannot import name",
            "common_ops library",
            "torchvision::nms",
            "cannot open shared object file",
            "dll load failed",
        ),
        r"Could not load any common_ops library",
        r"operator torchvision::nms does not exist",
        r"cannot import name '(?P<symbol>\w+)' from '(?:sgl_kernel|flashinfer|flash_attn|torch|triton)\b",
        r"(?P<library>lib(?:cudart|cublas|cublasLt|cudnn|nccl|torch|c10|nvrtc|cusparse|cusparseLt|nvJitLink|cufft|curand|cusolver)"
        r"[\w-]*\.so[.\d]*): cannot open shared object file",
        parse=p.symbol,
    ),
    row(
        "jit_tool_missing",
        p.cause_of_tool,
        (
            "no such file or directory: '",
            "not found",
            "no such file or directory",
            "['which', '",
            "cannot execute '",
            "trying to exec '",
        ),
        r"\['which', '(?P<tool4>ninja|nvcc|g\+\+|gcc|cc|c\+\+)'\]",
        r"(?:cannot execute|error trying to exec) '(?P<tool5>cc1plus|cc1|as|ld|collect2|cudafe\+\+|cicc|ptxas|fatbinary)'",
        r"No such file or directory: '(?:/\S*/)?(?P<tool>ninja|nvcc|g\+\+|gcc|cc|c\+\+|clang|clang\+\+|cicc|ptxas)'",
        r"(?:^|[\s:/])(?P<tool2>ninja|nvcc|g\+\+|gcc|cc|c\+\+): (?:command )?(?:not found|No such file or directory)",
        r"command not found: (?P<tool3>ninja|nvcc|g\+\+|gcc)\b",
        parse=p.tool,
    ),
    row(
        "jit_tool_missing",
        p.cause_of_tool,
        ("ninja", "nvcc", "cuda_home", "c compiler", "python.h", "c++ compiler"),
        r"[Nn]inja is required",
        r"(?:[Uu]nable to|[Cc](?:annot|ould not)) (?:find|locate) (?:the )?['\"`]?(?:ninja|nvcc)\b",
        r"\b(?:ninja|nvcc)['\"`]? (?:was |is |could )?(?:not (?:found|installed|available|be found)|missing)",
        r"CUDA_HOME(?: environment variable)? is not set",
        r"CUDA_HOME[^\n]*doesn't exist|cuda_home='[^']*' doesn't exist",
        r"Failed to find C compiler|[Nn]o (?:working )?C(?:\+\+)? compiler",
        r"Python\.h: No such file",
        parse=p.tool,
    ),
    row(
        "jit_tool_missing",
        "nvcc",
        ("fatal error: c", "fatal error: nv", "cannot find -lcuda"),
        r"fatal error: (?:cuda\w*|cu(?:rand|blas|sparse|solver|fft|dnn)\w*|nv\w+)[\w/]*\.(?:h|cuh|hpp): No such file",
        r"cannot find -lcuda(?:rt)?\b",
        parse=p.named,
    ),
)

_HARDWARE = (
    row(
        "gpu_hardware_fault",
        None,
        (
            "uncorrectable ",
            "uncorrectable",
            "gpu is lost",
            "fallen off the bus",
            "over nvlink or a hardware error",
            "gpu requires reset",
            "nvmlerror_resetrequired",
        ),
        r"uncorrectable (?:ECC|NVLink) error|cudaErrorECCUncorrectable|cudaErrorNvlinkUncorrectable",
        r"peer GPU memory over nvlink or a hardware error",
        r"GPU requires reset|NVMLError_ResetRequired",
        r"GPU is lost",
        r"fallen off the bus",
        parse=p.cuda,
    ),
)

_MODEL = (
    row(
        "draft_target_mismatch",
        "target_layer_ids",
        ("target_layer_id", "target layer", "tap layer", "layers to capture"),
        r"target_layer_ids\[\d+\]=(?P<max_target_layer_id>\d+), target_num_layers=(?P<target_num_layers>\d+)",
        r"(?:target_layer_ids?|(?:target|tap) layers?(?: id)?)[^\n]*(?:out[ -]of[ -]range|exceeds?|>= |does not (?:exist|have)|not in range)",
        r"out[ -]of[ -]range[^\n]*(?:target_layer_id|target layer)",
        parse=p.key_values,
    ),
    row(
        "draft_target_mismatch",
        "quantized_lm_head",
        ("lm_head", "lm head"),
        r"requires? (?:a )?dense[^\n]*lm[_ ]head",
        r"requires the target model to expose `?lm_head",
        r"lm[_ ]head[^\n]*(?:quanti[sz]ed|packed|not dense)",
        r"(?:quanti[sz]ed|packed)[^\n]*lm[_ ]head",
    ),
    row(
        "draft_target_mismatch",
        p.cause_of_pair,
        ("feature dim mismatch", "fc.weight shape mismatch", "context features"),
        r"feature dim mismatch",
        r"fc\.weight shape mismatch",
        r"number of context features",
    ),
    row(
        "draft_target_mismatch",
        "hidden_size",
        ("hidden_size", "hidden size", "hidden dim"),
        r"(?:[Dd]raft|DFLASH|DDTREE|[Dd][Ff]lash)[^\n]*hidden[_ ](?:size|dim)[^\n]*(?:mismatch|match|differ|!=|not equal|expected)",
        r"hidden[_ ](?:size|dim)[^\n]*(?:mismatch|not match|differs?|must (?:equal|match)|!=)[^\n]*(?:draft|target)",
        parse=p.key_values,
    ),
    row(
        "draft_target_mismatch",
        "vocab_size",
        ("vocab",),
        r"(?:[Dd]raft|DFLASH|DDTREE)[^\n]*vocab\w*[^\n]*(?:mismatch|not match|differs?|must (?:equal|match)|!=)",
        r"vocab\w*[^\n]*(?:mismatch|not match|differs?|must (?:equal|match)|!=)[^\n]*(?:draft|target)",
        parse=p.key_values,
        when=p.not_mask,
    ),
    row(
        "draft_config_invalid",
        "mask_token",
        ("mask_token", "mask token"),
        r"mask[_ ]token(?:_id)?[^\n]*(?:outside|must be|conflicts|could not|missing|not set|out of range|[Ii]nvalid|required|absent|>=)",
        r"(?:requires?|missing|lacks?|no|without|KeyError: ')[^\n]{0,60}mask[_ ]token",
        parse=p.key_values,
    ),
    row(
        "draft_config_invalid",
        "target_layer_ids_missing",
        ("target_layer_ids",),
        r"target_layer_ids[^\n]*(?:missing|must be|required|not (?:set|found|given|present|in)|is None|absent|empty)",
        r"(?:missing|requires?|without|lacks?|no|KeyError: ')[^\n]{0,60}target_layer_ids",
        r"has no attribute 'target_layer_ids'",
    ),
    row(
        "draft_config_invalid",
        "block_size",
        ("block_size", "block size"),
        r"(?:[Dd]raft|DFLASH|DDTREE|dflash_config)[^\n]*block[_ ]size[^\n]*(?:must|missing|mismatch|invalid|required|positive|differ|conflict)",
        r"[Ii]nvalid[^\n]{0,60}block_size",
        r"KeyError: 'block_size'|has no attribute 'block_size'",
        parse=p.key_values,
        when=p.of_configuration,
    ),
    row(
        "draft_target_mismatch",
        p.cause_of_shapes,
        ("shapes cannot be multiplied", "must match the size of tensor", "size mismatch", "shape mismatch"),
        r"mat1 and mat2 shapes cannot be multiplied \(\d+x(?P<given>\d+) and (?P<wanted>\d+)x(?P<hidden>\d+)\)",
        r"size of tensor a \(\d+\) must match the size of tensor b \(\d+\)",
        r"(?:size|shape) mismatch",
        parse=p.nothing,
        when=p.in_drafter_code,
    ),
    row(
        "draft_config_invalid",
        None,
        ("dflash", "dspark"),
        r"(?:Error|Exception): [^\n]*\b(?:DFLASH|DFlash|DSPARK|DSpark)\b[^\n]*\b(?:config|dflash_config|num_hidden_layers|num_target_layers|layer_types?"
        r"|layer type|block_size|selector|convolution|conv_\w+|activation|intermediate_size|emb_dim|gru_hidden_dim|pure_draft_prefix_len|shift_label"
        r"|output_multiplier|attention_sink_bias|attention_value_scale|sliding_window)\b",
        when=p.no_option,
    ),
    row(
        "draft_config_invalid",
        None,
        ("dflash", "ddtree", "drafter"),
        r"(?:DFLASH|DDTREE|[Dd]rafter)[^\n]*config[^\n]*(?:must|requires?|missing|without|lacks?|[Ii]nvalid|contradict)",
        r"(?:DFLASH|DDTREE) requires draft num_hidden_layers",
        r"(?:DFLASH|DDTREE)[^\n]*(?:layer_types|sliding_window|require config\.)",
        when=p.no_better_reading,
    ),
    row(
        "draft_arch_unsupported",
        None,
        (
            "not supported",
            "failed to be inspected",
            "has no sglang implementation",
            "cannot find model module",
            "not registered",
            "unsupported arch",
        ),
        r"[Mm]odel architectures? (?:\[)?'(?P<architecture>\w+)'\]?[^\n]*(?:not supported|failed to be inspected)",
        r"(?P<architecture2>\w*(?:DFlash|DDTree|Draft|Eagle|Medusa)\w*)['\"]?\]?[^\n]{0,40}(?:is not supported|has no SG[Ll]ang|not registered)",
        r"Cannot find model module\.? '(?P<architecture3>\w+)'",
        r"[Uu]nsupported arch(?:itecture)?s?:? \[?'?(?P<architecture4>\w+)'?\]?",
        when=p.of_draft_architecture,
    ),
    row(
        "model_path_missing",
        p.cause_of_model,
        ("repo id must be", "incorrect path_or_model_id", "invalid repository id or local directory"),
        r"Repo id must [^\n]*?: '(?P<name>[^']+)'",
        r"Incorrect path_or_model_id: '(?P<name2>[^']+)'",
        r"[Ii]nvalid repository ID or local directory specified: '(?P<name3>[^']+)'",
        parse=p.model,
    ),
    row(
        "model_path_missing",
        p.cause_of_model,
        (
            "couldn't connect to",
            "can't load",
            "cannot find the requested files",
            "offline mode",
            "offlinemodeisenabled",
            "localentrynotfound",
            "outgoing traffic has been disabled",
            "cannot find an appropriate cached snapshot",
        ),
        r"couldn't connect to '[^']*'[^\n]*looks like (?P<name>\S+) is not the path",
        r"[Cc]an't load[^\n]*? (?:for|of) '(?P<name2>[^']+)'",
        r"couldn't connect to 'https?://",
        r"[Cc]annot find the requested files in the (?:disk|local) cache",
        r"[Cc]annot find an appropriate cached snapshot",
        r"[Oo]ffline mode is enabled",
        r"[Oo]utgoing traffic has been disabled",
        r"LocalEntryNotFoundError|OfflineModeIsEnabled",
        parse=p.model,
    ),
    row(
        "model_path_missing",
        p.cause_of_model,
        (
            "does not appear to have",
            "is not a local folder",
            "cannot find any model weights",
            "config.json",
            "unrecognized model in",
            "is not a valid model identifier",
            "no file named",
        ),
        r"(?P<name>[^\s:]+) does not appear to have (?:a file|any files?|files?) named",
        r"(?P<name2>\S+) is not a local folder",
        r"Cannot find any model weights with [`'](?P<name3>[^`']+)[`']",
        r"no file named [^\n]*found in directory (?P<name6>\S+?)\.?(?:\s|$)",
        r"[Nn]o config\.json (?:file )?(?:found )?in (?P<name4>\S+)",
        r"Unrecognized model in (?P<name5>\S+?)\.(?:\s|$)",
        parse=p.model,
    ),
    row(
        "model_path_missing",
        p.cause_of_model,
        (
            "repository not found",
            "repositorynotfounderror",
            "client error",
            "gatedrepoerror",
            "gated repo",
            "revisionnotfound",
            "entrynotfound",
        ),
        r"Repository Not Found|RepositoryNotFoundError",
        r"(?:401|403|404) Client Error[^\n]*(?:hugging|hf|modelscope|/resolve/|api/models)",
        r"GatedRepoError|[Aa]ccess(?:ing)? (?:a |to )?gated repo",
        r"RevisionNotFoundError|EntryNotFoundError",
        parse=p.model,
    ),
    row(
        "model_path_missing",
        p.cause_of_model,
        (
            "max retries exceeded",
            "failed to resolve",
            "name resolution",
            "network is unreachable",
            "name or service not known",
        ),
        r"(?:huggingface\.co|hf-mirror|modelscope)[^\n]*(?:Max retries exceeded|NameResolution|Failed to resolve|unreachable|not known)",
        r"(?:Max retries exceeded|NameResolution|Failed to resolve|unreachable|not known)[^\n]*(?:huggingface\.co|hf-mirror|modelscope|api/models)",
        parse=p.model,
    ),
    row(
        "model_path_missing",
        p.cause_of_model,
        (
            "no such file or directory",
            "filenotfounderror",
            "does not exist",
            "not found",
            "is not a directory",
            "permission denied",
            "missing",
        ),
        r"(?:No such file or directory|FileNotFoundError|NotADirectoryError|PermissionError)[^\n]*?['\": ](?P<name>/[^'\":\s,]+)",
        r"(?:[Mm]odel|[Dd]raft(?:er)?|[Tt]arget|[Cc]heckpoint)[^\n]{0,60}?['\" ](?P<name2>/[^'\":\s,]+)['\"]?[^\n]{0,30}"
        r"(?:does not exist|not found|is not a directory|missing)",
        r"(?:not found|missing|does not exist)[^\n]{0,30}['\": ](?P<name3>/[^'\":\s,]+)",
        r"(?P<name4>/[^'\":\s,]+)['\"]?:? (?:No such file or directory|does not exist|not found|is not a directory)",
        parse=p.model,
        when=p.model_file,
    ),
    row(
        "model_path_missing",
        "path",
        ("incomplete download", "safetensorerror", "shard file", "error while deserializing header"),
        r"incomplete download|SafetensorError|[Ee]rror while deserializing header|shard file\(s\) missing",
    ),
)

# The words of this project's own servers (ddtree.server and the SGLang plugin).
_OWN = (
    row(
        "model_path_missing",
        p.cause_of_own_model,
        (
            "is no model directory",
            "is no drafter directory",
            "has no .safetensors file",
            "readable safetensors",
            "lacks",
            "usable tokenizer",
        ),
        r"(?P<name>\S+) is no (?:model|drafter) directory",
        r"(?P<name2>\S+) has no (?:\.safetensors file|usable tokenizer)",
        r"(?P<name3>\S+) is not a readable safetensors file",
        r"(?P<name4>\S+) lacks (?:the )?weights",
        parse=p.own_model,
    ),
    row(
        "draft_target_mismatch",
        p.cause_of_own_pair,
        ("are not a pair",),
        r"drafter and target are not a pair",
    ),
    row(
        "draft_config_invalid",
        p.cause_of_own_config,
        ("config.json: ", "mask token", "names no block_size", "config.json means", "has unknown weights"),
        r"config\.json: (?:missing key|hidden_act|rotary|layer_types|sliding_attention|block_size)",
        r"mask token \d+ is outside the target's vocabulary",
        r"drafter \S+ names no block_size",
        r"config\.json means|has unknown weights",
    ),
    row(
        "draft_arch_unsupported",
        None,
        ("architectures is [",),
        r"architectures is \['(?P<architecture>\w+)'",
    ),
    row(
        "server_args_invalid",
        p.cause_of_own_arguments,
        ("ddtree.server: ", "configerror: ", "modelerror: ", "valueerror: "),
        r"(?:unknown algorithm '(?P<value>[^']*)'|algorithm \w+ needs|DDTREE (?:needs|runs on|supports|serves|verifies|does not))",
        r"(?:ConfigError|ddtree\.server): [^\n]*(?P<option>--[a-z][a-z-]+)",
        r"(?:block size|budget) \d+ (?:is not between|must be)",
        r"the transformers backend serves",
        parse=p.own_option,
    ),
)

_ARGUMENTS = (
    row(
        "server_args_invalid",
        p.cause_of_arguments,
        ("error: ", "no such option", "unknown speculative", "unknown option", "type=literal_error", "type=enum"),
        r"error: unrecognized arguments?: (?P<option>--?[^\s=]+)",
        r"error: argument (?P<option2>-[^\s:]+): (?:invalid choice: '?(?P<value>[^'\s]+)'?|invalid \w+ value: '(?P<value2>[^']*)'|[^\n]+)",
        r"error: the following arguments are required: (?P<options>[^\n]+)",
        r"error: ambiguous option: (?P<option3>--[^\s=]+)",
        r"[Nn]o such option:? '?(?P<option4>--[^\s']+)",
        r"[Uu]nknown speculative algorithm(?: name)?:? '?(?P<value3>\w+)",
        # Releases that look the name up in a table or an enumeration.
        r"KeyError: '(?P<value4>DFLASH|DDTREE|DSPARK|EAGLE3?|NEXTN|STANDALONE|NGRAM)'$",
        r"type=(?:literal_error|enum), input_value='(?P<value5>[^']*)'",
        parse=p.option,
        any_level=True,
    ),
    row(
        "server_args_invalid",
        "missing_option",
        ("requires setting --", "must be specified", "must be set", "is required"),
        r"requires setting (?P<option>--[a-z0-9-]+)",
        r"(?P<option2>--[a-z][a-z0-9-]+)[^\n]{0,40}(?:must be (?:set|specified|provided)|is required|needs to be set)",
        parse=p.option,
    ),
    row(
        "server_args_invalid",
        "attention_backend",
        ("backend",),
        r"[Cc]onsider using a different attention backend",
        r"[Ss]elected backend (?:\w+\.)?(?P<backend>\w+) is not valid",
        r"[Nn]o valid attention backend",
        r"[Oo]ne of the attention backends in[^\n]*but got (?P<backend2>\w+)",
        r"requires one of[^\n]*attention backend",
        r"[Aa]ttention[ _-]backend[: ]+['\"]?(?P<backend7>\w+)['\"]? (?:is not|is unsupported|does not|cannot|not )",
        r"does not support (?:the )?attention[ _-]backend[: ]+['\"]?(?P<backend8>\w+)",
        r"(?P<backend3>\w+(?: \w+)?) [Bb]ackend[^\n]{0,40}(?:is only supported on|requires SM|is not supported|only supports)",
        r"does not support (?P<backend4>\w+) attention backend",
        r"attention[_ -]backend[^\n]*(?:is not supported|not allowed|unsupported|must be|is required|but got)[^\n]*?(?P<backend5>\w+)?",
        r"(?:not supported|unsupported|not compatible)[^\n]*with (?P<backend6>\w+) attention backend",
    ),
    row(
        "server_args_invalid",
        "incompatible",
        ("speculative decoding", "ddtree", "dflash", "page_size", "differ"),
        r"(?:DFLASH|DDTREE|DSPARK|EAGLE3?|NEXTN|STANDALONE|NGRAM)\b[^\n]*(?:does not support|only supports?|supports only|not supported|unsupported"
        r"|cannot be (?:used|combined)|incompatible)(?![^\n]*return_logprob)",
        r"[Ss]peculative decoding[^\n]*(?:does not support|only supports?|not supported|cannot be (?:used|combined)|incompatible|not compatible)",
        r"are set but they differ",
        r"(?:unsupported|not supported|incompatible) with (?:DFLASH|DDTREE|speculative)",
        r"(?:DFLASH|DDTREE) requires --",
        parse=p.option,
    ),
    row(
        "server_args_invalid",
        p.cause_of_arguments,
        ("valueerror: ", "assertionerror: ", "notimplementederror: ", "value error, ", "argumenterror", "valueerror("),
        r"(?:ValueError|AssertionError|NotImplementedError|ArgumentError|Value error)[:,(][^\n]*--[a-z][a-z0-9-]+[^\n]*",
        r"(?:AssertionError|ValueError): (?:tp_size|dp_size|pp_size|page_size|ep_size|mem_fraction_static|max_running_requests|chunked_prefill_size)\b[^\n]*",
        r"Value error, [^\n]*(?:must|not supported|cannot|requires|greater than|invalid)",
        r"ValueError: User-specified \w+ \(\d+\) is greater than[^\n]*",
        r"mutually exclusive|cannot be (?:used|set|enabled) (?:at the same time|together|simultaneously)",
        r"must be divisible by (?:the )?(?:tensor|pipeline|tp|pp|attention|moe|ep)[ _-][^\n]*|divisible by tp_size",
        r"implements neither set_\w+_layers_to_capture|World size \(\d+\) is larger than",
        parse=p.option,
    ),
    row(
        "server_args_invalid",
        "incompatible",
        ("_layers_to_capture'", "eagle3 interface"),
        r"has no attribute 'set_\w+_layers_to_capture'",
        r"does not support EAGLE3 interface but aux_hidden_state_outputs was requested",
    ),
    row(
        "server_args_invalid",
        p.cause_of_arguments,
        ("validation error", "value error, "),
        r"\d+ validation errors? for \w*(?:Config|Args)\b",
        r"\bValue error, ",
        tier="subsystem",
        parse=p.option,
        when=p.of_configuration_class,
    ),
)

_PORT = (
    row(
        "port_in_use",
        p.cause_of_port,
        (
            "address already in use",
            "errno 98",
            "eaddrinuse",
            "already in use",
            "port is in use",
            "in use",
            "is not available in",
            "port is already allocated",
            "-98",
        ),
        r"[Aa]ddress already in use",
        r"\[[Ee]rrno 98\]",
        r"EADDRINUSE",
        r"[Pp]ort (?P<port>\d+) is (?:already )?(?:in use|occupied|taken)(?![^\n]*(?:[Ww]aiting for|trying))",
        r"Port is already in use|port is already allocated",
        r"\w*port\w* at (?P<port2>\d+) is not available in",
        r"[Ee]rror while attempting to bind on address",
        parse=p.address,
        any_level=True,
    ),
)

_SUBSYSTEM = (
    row(
        "nccl_unhandled_system_error",
        p.cause_of_nccl_system,
        ("unhandled system error", "ncclsystemerror"),
        r"unhandled system error(?:[^\n]*NCCL version (?P<nccl_version>[\d.]+))?",
        r"ncclSystemError",
        tier="subsystem",
        parse=p.nccl,
    ),
    row(
        "nccl_unhandled_cuda_error",
        None,
        ("unhandled cuda error", "ncclunhandledcudaerror"),
        r"unhandled cuda error(?:[^\n]*NCCL version (?P<nccl_version>[\d.]+))?",
        r"ncclUnhandledCudaError",
        tier="subsystem",
        parse=p.nccl,
    ),
    row(
        "cuda_graph_capture_failed",
        None,
        (
            "graph failed",
            "graph capture failed",
            "stream is capturing",
            "streamcapture",
            "capture_begin",
            "capture_end",
        ),
        r"Capture (?:\w+ )*(?:cuda|CUDA) graph failed",
        r"(?:CUDA|cuda) ?graph capture failed|[Ff]ailed to capture (?:the )?(?:cuda|CUDA) ?graph",
        r"not permitted when stream is capturing|cudaErrorStreamCapture\w+",
        tier="capture",
    ),
    row(
        "engine_stalled",
        p.stalled_in,
        ("watchdog",),
        r"[Ww]atchdog timeout \((?:self\.)?watchdog_timeout=(?P<watchdog_timeout_s>\d+)(?![^\n]*soft=True)",
        r"[Ww]atchdog timeout \(limit",
        r"[Ww]atchdog caught collective operation timeout",
        tier="stall",
    ),
    row(
        "engine_stalled",
        "nccl_init",
        ("clients joined", "store based barrier", "waiting for clients", "timed out initializing process group"),
        r"Timed out after \d+ seconds waiting for clients|\d+/\d+ clients joined",
        r"Timed out initializing process group|store based barrier",
        tier="stall",
    ),
    row(
        "engine_stalled",
        "forward",
        ("shared memory broadcast block", "execute model timed out", "rpc call to"),
        r"[Ee]xecute model timed out|RPC call to \w+ timed out",
        tier="stall",
    ),
)

ROWS: tuple[Row, ...] = (*_HARDWARE, *_MEMORY, *_CUDA, *_OWN, *_MODEL, *_ARGUMENTS, *_PORT, *_SUBSYSTEM)


def findings(ctx: Context) -> Iterator[Finding]:
    """The first line per row, in each channel that holds engine text, within the run in question."""
    for number, channel in enumerate(ENGINE_CHANNELS):
        log = ctx.logs[channel]
        if not log:
            continue
        for index, rule in enumerate(ROWS):
            best = _first(rule, ctx, channel)
            if best is None:
                continue
            match, line = best
            cause = rule.cause(match, line, ctx) if callable(rule.cause) else rule.cause
            parsed = rule.parse(match, line, ctx)
            rank = rank_of(line.text)
            if rank is not None:
                parsed.setdefault("rank", rank)
            order = (number * (1 << 40) + line.position, index)
            yield Finding(rule.code, cause, rule.tier, order, (shorten(line.text),), parsed)


def _first(rule: Row, ctx: Context, channel: str) -> tuple[re.Match, Line] | None:
    log, start, stop = ctx.logs[channel], ctx.starts[channel], ctx.stops[channel]
    best: tuple[re.Match, Line] | None = None
    for hint in rule.hints:
        for line in log.lines_with(hint, start):
            if best is not None and line.position >= best[1].position:
                break
            if 0 <= stop < line.position:
                break
            match = rule.pattern.search(line.text)
            if match is None or quotes(line.text) or (not rule.any_level and harmless(line.text)):
                continue
            if rule.when is not None and not rule.when(match, line, ctx):
                continue
            best = (match, line)
            break
    return best
