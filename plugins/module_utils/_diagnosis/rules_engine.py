# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules over what engines and their libraries print: one row per cause.

A row's expressions decide line by line; screen.py reads from them which lines are worth it. Wordings are those of SGLang, vLLM,
ddtree, torch, Triton, NCCL, transformers, huggingface_hub, argparse, uvicorn, glibc and the container tools.
Rows that match the same line are tried in the order given here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Union

from . import catalogue, screen
from . import engine_parsers as p
from .context import ENGINE_CHANNELS, Context, Finding
from .text import Line, rank_of, shorten

Chooser = Callable[[re.Match, Line, Context], Union[str, None]]
Condition = Callable[[re.Match, Line, Context], bool]
Parser = Callable[[re.Match, Line, Context], "dict[str, Any]"]


@dataclass(frozen=True)
class Row:
    """A line that C(pattern) accepts, where C(when) holds, stands for C(code)."""

    code: str
    cause: str | Chooser | None
    pattern: re.Pattern
    branches: tuple[screen.Alternative, ...]
    tier: str = "specific"
    parse: Parser = p.named
    when: Condition | None = None
    # Some causes are only ever printed as warnings.
    any_level: bool = False


def row(code: str, cause: str | Chooser | None, *alternatives: str, **more: Any) -> Row:
    """A row whose expression is any of I(alternatives)."""
    pattern = re.compile("|".join(alternatives))
    return Row(code, cause, pattern, screen.read(pattern), **more)


_MEMORY = (
    row(
        "shm_too_small",
        None,
        r"Error while (?:creating|attaching to) shared memory segment",
        r"failed to (?:extend|create) (?:shared memory file )?/dev/shm",
        r"Could not map /dev/shm",
        r"[Uu]nable to allocate shared memory",
        when=p.shm_segment,
    ),
    row(
        "shm_too_small",
        None,
        r"No space left on device",
        r"\[?(?:Errno|Error|error) 28\b",
        r"\(28\)",
        when=p.shm_space,
    ),
    row(
        "shm_too_small",
        None,
        r"insufficient shared memory",
        r"[Oo]ut of shared memory",
        r"[Bb]us error",
        r"SIGBUS|status=7/BUS",
        when=p.shm_bus_error,
    ),
    row(
        "ulimit_too_low",
        "memlock",
        r"ibv_\w+ (?:failed|returned)[^\n]*(?:Cannot allocate memory|ENOMEM|errno:? 12\b|error 12\b)",
        when=p.memlock_bounded,
    ),
    row(
        "ulimit_too_low",
        "memlock",
        r"(?:[Ii]ncrease|[Rr]aise|[Cc]heck|exceed\w*|too (?:low|small))[^\n]*(?:memlock|MEMLOCK|locked[- ](?:in-)?memory)",
        # An option that sets the limit (memlock=-1, --ulimit) complains of nothing.
        r"(?:memlock|MEMLOCK|locked[- ](?:in-)?memory)(?!=)[^\n]*(?:too (?:low|small)|(?<!--u)limit|exceed)",
        r"\bmlock(?:all)?\b[^\n]*(?:failed|Cannot allocate)",
        when=p.memlock_bounded,
    ),
    row(
        "ulimit_too_low",
        "nofile",
        r"[Tt]oo many open files",
        r"\[Errno 24\]",
        r"\bEMFILE\b",
        r"(?:[Ii]ncrease|[Rr]aise)[^\n]*(?:nofile|open file descriptors|ulimit -n)",
    ),
    row(
        "ulimit_too_low",
        "nproc",
        r"can't start new thread",
        r"[Cc]annot fork",
        r"pthread_create failed",
        r"OpenBLAS blas_thread_init: pthread_create",
    ),
    row(
        "ulimit_too_low",
        "nproc",
        r"\[Errno 11\]",
        when=p.starts_a_process,
    ),
    row(
        "ulimit_too_low",
        "address_space",
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
        r"(?:Not enough (?:GPU )?memory|leaves? no (?:GPU memory|room)|too small to serve)[^\n]*mem[-_]fraction[-_]static",
        r"mem[-_]fraction[-_]static[^\n]*(?:Not enough (?:GPU )?memory|leaves? no (?:GPU memory|room)|too small to serve)",
        r"[Pp]lease (?:try to )?increase --mem-fraction-static",
        r"Raise --mem-fraction-static",
        r"or increase --mem-fraction-static",
    ),
    row(
        "kv_cache_oom",
        None,
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
        r"(?:Prefill|Decode) out of memory\. Try to lower your batch size",
        r"alloc_req_slots runs out of memory",
    ),
    row(
        "gpu_oom",
        p.cause_of_oom,
        r"CUDA (?:error: )?out of memory",
        r"OutOfMemoryError",
        r"Cuda failure(?: \d+)? 'out of memory'",
        r"CUDA_ERROR_OUT_OF_MEMORY",
        r"NV_ERR_NO_MEMORY",
        r"(?:RuntimeError|Exception|AcceleratorError|CUDAError|ERROR)\b[^\n]*(?<![Pp]erhaps )out of memory",
        r"cuda\w*[^\n]*: out of memory",
    ),
    row(
        "gpu_oom",
        p.cause_of_oom,
        r"(?:CUBLAS|CUDNN|CUSOLVER|CUFFT)_STATUS_ALLOC_FAILED",
        r"less than desired GPU memory utilization",
        r"memory capacity is unbalanced",
    ),
)

# What a run-time compilation starts, and what those programs start in turn.
_TOOLS = r"(?:\w+-)*(?:ninja|nvcc|g\+\+|gcc|cc|c\+\+|clang|clang\+\+)(?:-[\d.]+)?"
_PARTS = r"cc1plus|cc1|as|ld|ld\.\w+|lld|collect2|cudafe\+\+|cicc|ptxas(?:-\w+)?|fatbinary|nvlink"

_CUDA = (
    row(
        "cuda_compat_conflict",
        "stub_or_preload",
        r"CUDA driver is a stub library",
        r"[Ee]rror 34:",
        r"cudaErrorStubLibrary",
        parse=p.cuda,
        any_level=True,
    ),
    row(
        "cuda_compat_conflict",
        None,
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
        "cuda_driver_too_old",
        None,
        r"container was built for NVIDIA Driver Release \d[\d.]* or later",
        parse=p.driver_level,
        when=p.without_a_way_out,
    ),
    row(
        "gpu_arch_unsupported",
        "wheel",
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
        r"(?P<library>[^\s:]+\.so[\w.]*)?:? ?undefined symbol: (?P<symbol>[\w@.]+)",
        parse=p.symbol,
        any_level=True,
    ),
    row(
        "abi_undefined_symbol",
        None,
        r"version `(?P<symbol>[\w.]+)' not found \(required by (?P<library>[^)\s]+)\)",
        parse=p.symbol,
    ),
    row(
        "abi_undefined_symbol",
        None,
        r"Could not load any common_ops library",
        parse=p.symbol,
        when=p.of_wheels,
    ),
    row(
        "abi_undefined_symbol",
        None,
        r"operator torchvision::nms does not exist",
        r"cannot import name '(?P<symbol>\w+)' from '(?:sgl_kernel|flashinfer|flash_attn|torch|triton)\b",
        r"(?P<library>lib(?:cudart|cublas|cublasLt|cudnn|nccl|torch|c10|nvrtc|cusparse|cusparseLt|nvJitLink|cufft|curand|cusolver)"
        r"[\w-]*\.so[.\d]*): cannot open shared object file",
        parse=p.symbol,
    ),
    row(
        "jit_tool_missing",
        p.cause_of_tool,
        rf"\['which', '(?P<tool4>{_TOOLS})'\]",
        rf"Command '(?:\S*/)?which (?P<tool6>{_TOOLS})' returned",
        rf"which: no (?P<tool7>{_TOOLS}) in \(",
        # gcc's driver quotes by locale.
        rf"(?:cannot execute|error trying to exec|cannot find) [\u2018'\"`](?P<tool5>{_PARTS})[\u2019'\"`]",
        rf"Executable [\u2018'\"](?P<tool8>{_PARTS})[\u2019'\"] doesn't exist",
        rf"(?:No such file or directory|Permission denied|Exec format error): (?:\w+\()?['\"](?:/\S*/)?(?P<tool>{_TOOLS}|{_PARTS})['\"]",
        rf"[\u2018'\"](?:/\S*/)?(?P<tool11>{_TOOLS}|{_PARTS})[\u2019'\"]:? (?:failed: )?(?:command )?(?:not found|No such file or directory|Permission denied)",
        rf"(?:^|[\s:/])(?P<tool2>{_TOOLS}): (?:command )?(?:not found|No such file or directory|Permission denied)",
        rf"sh: (?:line )?\d+: (?:/\S*/)?(?P<tool9>{_PARTS}): (?:command )?not found",
        rf"command not found: (?P<tool3>{_TOOLS})\b",
        # A shell's statuses for what it cannot find or execute.
        rf"Command ['\"]\[?['\"]?(?:/[^\s'\",]*/)?(?P<tool10>{_TOOLS})\b[^\n]* returned non-zero exit status 12[67]\b",
        parse=p.tool,
    ),
    row(
        "jit_tool_missing",
        p.cause_of_failed_step,
        r"FAILED: \[code=12[67]\]",
        parse=p.failed_step,
        when=p.runs_a_compiler,
    ),
    row(
        "jit_tool_missing",
        p.cause_of_tool,
        r"[Nn]inja is required|No module named '?ninja\b",
        r"(?:[Uu]nable to|[Cc](?:annot|ould not|ouldn't|an't)|[Ff]ailed to) (?:find|locate) (?:the |an? |any )?(?:\w+ )?['\"`]?(?:ninja|nvcc|ptxas|cicc)\b",
        r"(?:[Uu]nable to|[Cc](?:annot|ould not|ouldn't|an't)|[Ff]ailed to) (?:find|locate) (?:the |an? |any )?(?:\w+ )?"
        r"(?:C(?:\+\+)? compiler|host compiler|CUDA (?:home|root|toolkit|compiler|installation))",
        r"\b(?:ninja|nvcc|ptxas|C(?:\+\+)? compiler)['\"`]? (?:was |is |could )?(?:not (?:found|installed|available|be found)|missing)",
        r"CUDA_(?:HOME|PATH)(?: environment variable)? (?:(?:is|was) (?:not set|not found|undefined|empty|None)|must be set|not set|not found|has to be set)",
        r"No CMAKE_(?:C|CXX|CUDA)_COMPILER could be found",
        r"[Pp]lease set (?:the )?(?:environment variable )?CUDA_(?:HOME|PATH)\b",
        r"CUDA_HOME[^\n]*doesn't exist|cuda_home='[^']*' doesn't exist",
        r"Failed to find C compiler|[Nn]o (?:working )?C(?:\+\+)? compiler",
        r"nvcc fatal +: (?:Failed to preprocess host compiler|Cannot find compiler)",
        r"Python\.h'?(?:: No such file| file not found)",
        parse=p.tool,
    ),
    row(
        "jit_tool_missing",
        "compiler",
        # A compiler without its libraries' headers or start files is none.
        r"fatal error: '?(?:std\w+|string|limits|math|assert|errno|unistd|features|stddef)\.h'?(?:: No such file| file not found)",
        r"fatal error: '?(?:cstd\w+|cmath|iostream|vector|string|memory|algorithm|type_traits|bits/[\w./+]+)'?(?:: No such file| file not found)",
        r"cannot find (?:\S*crt[1in]\.o|crtbegin\w*\.o|-lgcc\b|-lc\b|-lstdc\+\+)",
        parse=p.tool,
    ),
    row(
        "jit_tool_missing",
        "nvcc",
        r"fatal error: '?(?:cuda\w*|cu(?:rand|blas|sparse|solver|fft|dnn)\w*|nv\w+)[\w/]*\.(?:h|cuh|hpp)'?(?:: No such file| file not found)",
        r"cannot find -l(?:cuda\w*|nvrtc|nvJitLink|cu(?:rand|blas|sparse|solver|fft|dnn)\w*)\b",
        parse=p.named,
    ),
)

_HARDWARE = (
    row(
        "gpu_hardware_fault",
        None,
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
        r"target_layer_ids\[\d+\]=(?P<max_target_layer_id>\d+), target_num_layers=(?P<target_num_layers>\d+)",
        r"(?:target_layer_ids?|(?:target|tap) layers?(?: id)?)[^\n]*(?:out[ -]of[ -]range|exceeds?|>= |does not (?:exist|have)|not in range)",
        r"out[ -]of[ -]range[^\n]*(?:target_layer_id|target layer)",
        parse=p.key_values,
    ),
    row(
        "draft_target_mismatch",
        "quantized_lm_head",
        r"requires? (?:a )?dense[^\n]*lm[_ ]head",
        r"requires the target model to expose `?lm_head",
        r"lm[_ ]head[^\n]*(?:quanti[sz]ed|packed|not dense)",
        r"(?:quanti[sz]ed|packed)[^\n]*lm[_ ]head",
    ),
    row(
        "draft_target_mismatch",
        p.cause_of_pair,
        r"feature dim mismatch",
        r"fc\.weight shape mismatch",
        r"number of context features",
    ),
    row(
        "draft_target_mismatch",
        "hidden_size",
        r"(?:[Dd]raft|DFLASH|DDTREE|[Dd][Ff]lash)[^\n]*hidden[_ ](?:size|dim)[^\n]*(?:mismatch|match|differ|!=|not equal|expected)",
        r"hidden[_ ](?:size|dim)[^\n]*(?:mismatch|not match|differs?|must (?:equal|match)|!=)[^\n]*(?:draft|target)",
        parse=p.key_values,
    ),
    row(
        "draft_target_mismatch",
        "vocab_size",
        r"(?:[Dd]raft|DFLASH|DDTREE)[^\n]*vocab\w*[^\n]*(?:mismatch|not match|differs?|must (?:equal|match)|!=|incompatible|cannot retokenize)",
        r"(?:[Dd]raft|[Tt]arget)[^\n]*same vocab",
        r"vocab\w*[^\n]*(?:mismatch|not match|differs?|must (?:equal|match)|!=)[^\n]*(?:draft|target)",
        parse=p.key_values,
        when=p.not_mask,
    ),
    row(
        "draft_config_invalid",
        "mask_token",
        r"mask[_ ]token(?:_id)?[^\n]*(?:outside|must be|conflicts|could not|missing|not set|out of range|[Ii]nvalid|required|absent|>=)",
        r"(?:requires?|missing|lacks?|no|without|KeyError: ')[^\n]{0,60}mask[_ ]token",
        parse=p.key_values,
    ),
    row(
        "draft_config_invalid",
        "target_layer_ids_missing",
        r"target_layer_ids[^\n]*(?:missing|must be|required|not (?:set|found|given|present|in)|is None|absent|empty)",
        r"(?:missing|requires?|without|lacks?|no|KeyError: ')[^\n]{0,60}target_layer_ids",
        r"has no attribute 'target_layer_ids'",
    ),
    row(
        "draft_config_invalid",
        "block_size",
        r"(?:[Dd]raft|DFLASH|DDTREE|dflash_config)[^\n]*block[_ ]size[^\n]*(?:must|missing|mismatch|invalid|required|positive|differ|conflict)",
        r"[Ii]nvalid[^\n]{0,60}block_size",
        r"KeyError: 'block_size'|has no attribute 'block_size'",
        parse=p.key_values,
        when=p.of_configuration,
    ),
    row(
        "draft_target_mismatch",
        p.cause_of_shapes,
        r"mat1 and mat2 shapes cannot be multiplied \(\d+x(?P<given>\d+) and (?P<wanted>\d+)x(?P<hidden>\d+)\)",
        r"size of tensor a \(\d+\) must match the size of tensor b \(\d+\)|must match the existing size \(\d+\)",
        r"(?:size|shape) mismatch",
        parse=p.nothing,
        when=p.in_drafter_code,
    ),
    row(
        "draft_config_invalid",
        None,
        r"(?:Error: |Exception: )[^\n]*\b(?:DFLASH|DFlash|DSPARK|DSpark)\b[^\n]*\b(?:config|dflash_config|num_hidden_layers|num_target_layers|layer_types?"
        r"|layer type|block_size|selector|convolution|conv_\w+|activation|intermediate_size|emb_dim|gru_hidden_dim|pure_draft_prefix_len|shift_label"
        r"|output_multiplier|attention_sink_bias|attention_value_scale|sliding_window)\b",
        when=p.no_option,
    ),
    row(
        "draft_config_invalid",
        None,
        r"(?:DFLASH|DDTREE|[Dd]rafter)[^\n]*config[^\n]*(?:must|requires?|missing|without|lacks?|[Ii]nvalid|contradict)",
        r"(?:DFLASH|DDTREE) requires draft num_hidden_layers",
        r"(?:DFLASH|DDTREE)[^\n]*(?:layer_types|sliding_window|require config\.)",
        when=p.no_better_reading,
    ),
    row(
        "draft_arch_unsupported",
        None,
        r"[Mm]odel architectures? (?:\[)?'(?P<architecture>\w+)'\]?[^\n]*(?:not supported|failed to be inspected)",
        r"(?P<architecture2>\w*(?:DFlash|DDTree|Draft|Eagle|Medusa)\w*)['\"]?\]?[^\n]{0,40}(?:is not supported|has no SG[Ll]ang|not registered)",
        r"Cannot find model module\.? '(?P<architecture3>\w+)'",
        r"[Uu]nsupported arch(?:itecture)?s?:? \[?'?(?P<architecture4>\w+)'?\]?",
        when=p.of_draft_architecture,
    ),
    row(
        "draft_config_invalid",
        None,
        r"Unrecognized model in (?P<name>\S+?)\. [^\n]*\bmodel_type\b",
        when=p.drafter_without_type,
    ),
    row(
        "model_path_missing",
        "hub_unreachable",
        # The words of the hub's own transfer library.
        r"CAS service error|CasObjectError|CasClientError",
        when=p.hub_not_disk,
    ),
    row(
        "model_path_missing",
        p.cause_of_model,
        r"Repo id must [^\n]*?: '(?P<name>[^']+)'",
        r"Incorrect path_or_model_id: '(?P<name2>[^']+)'",
        r"[Ii]nvalid repository ID or local directory specified: '(?P<name3>[^']+)'",
        parse=p.model,
    ),
    row(
        "model_path_missing",
        p.cause_of_model,
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
        r"Repository Not Found|RepositoryNotFoundError",
        r"(?:401|403|404) Client Error[^\n]*(?:hugging|hf|modelscope|/resolve/|api/models)",
        r"GatedRepoError|[Aa]ccess(?:ing)? (?:a |to )?gated repo",
        r"RevisionNotFoundError|EntryNotFoundError",
        parse=p.model,
    ),
    row(
        "model_path_missing",
        p.cause_of_model,
        r"(?:huggingface\.co|hf-mirror|modelscope)[^\n]*(?:Max retries exceeded|NameResolution|Failed to resolve|unreachable|not known)",
        r"(?:Max retries exceeded|NameResolution|Failed to resolve|unreachable|not known)[^\n]*(?:huggingface\.co|hf-mirror|modelscope|api/models)",
        parse=p.model,
    ),
    row(
        "model_path_missing",
        p.cause_of_model,
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
        r"incomplete download|SafetensorError|[Ee]rror while deserializing header|shard file\(s\) missing",
    ),
)

# The words of this project's own servers (ddtree.server and the SGLang plugin).
_OWN = (
    row(
        "model_path_missing",
        p.cause_of_own_model,
        r"(?P<name>\S+) is no (?:model|drafter) directory",
        r"(?P<name2>\S+) has no (?:\.safetensors file|usable tokenizer)",
        r"(?P<name3>\S+) is not a readable safetensors file",
        r"(?P<name4>\S+) lacks (?:the )?weights",
        parse=p.own_model,
    ),
    row(
        "draft_target_mismatch",
        p.cause_of_own_pair,
        r"drafter and target are not a pair",
    ),
    row(
        "draft_config_invalid",
        p.cause_of_own_config,
        r"config\.json: (?:missing key|hidden_act|rotary|layer_types|sliding_attention|block_size)",
        r"mask token \d+ is outside the target's vocabulary",
        r"drafter \S+ names no block_size",
        r"config\.json means|has unknown weights",
    ),
    row(
        "draft_arch_unsupported",
        None,
        r"architectures is \['(?P<architecture>\w+)'",
    ),
    row(
        "server_args_invalid",
        p.cause_of_own_arguments,
        r"(?:ddtree\.server|ConfigError|ModelError|ValueError): [^\n]*(?:unknown algorithm '(?P<value>[^']*)'|algorithm \w+ needs"
        r"|DDTREE (?:needs|runs on|supports|serves|verifies|does not))",
        r"(?:ConfigError|ddtree\.server): [^\n]*(?P<option>--[a-z][a-z-]+)",
        r"(?:ddtree\.server|ConfigError|ModelError|ValueError): [^\n]*(?:block size|budget) \d+ (?:is not between|must be)",
        r"(?:ddtree\.server|ConfigError|ModelError|ValueError): [^\n]*the transformers backend serves",
        parse=p.own_option,
    ),
)

_ARGUMENTS = (
    row(
        "server_args_invalid",
        p.cause_of_arguments,
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
        r"requires setting (?P<option>--[a-z0-9-]+)",
        r"(?P<option2>--[a-z][a-z0-9-]+)[^\n]{0,40}(?:must be (?:set|specified|provided)|is required|needs to be set)",
        parse=p.option,
    ),
    row(
        "server_args_invalid",
        "attention_backend",
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
        parse=p.key_values,
    ),
    row(
        "server_args_invalid",
        "incompatible",
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
        r"(?:ValueError|AssertionError|NotImplementedError|ArgumentError|Value error)[:,(][^\n]*--[a-z][a-z0-9-]+[^\n]*",
        r"(?:AssertionError|ValueError): (?:tp_size|dp_size|pp_size|page_size|ep_size|mem_fraction_static|max_running_requests|chunked_prefill_size)\b[^\n]*",
        r"Value error, [^\n]*(?:must|not supported|cannot|requires|greater than|invalid)",
        r"(?:Error|error): User-specified \w+ \(\d+\) is greater than[^\n]*",
        r"(?:Error|error|Exception)[:,(][^\n]*(?:mutually exclusive|cannot be (?:used|set|enabled) (?:at the same time|together|simultaneously))",
        r"(?:Error|error|Exception)[:,(][^\n]*must be divisible by (?:the )?(?:tensor|pipeline|tp|pp|attention|moe|ep)[ _-][^\n]*",
        r"(?:Error|error|Exception)[:,(][^\n]*(?:divisible by tp_size|implements neither set_\w+_layers_to_capture|World size \(\d+\) is larger than)",
        parse=p.option,
    ),
    row(
        "server_args_invalid",
        "incompatible",
        r"has no attribute 'set_\w+_layers_to_capture'",
        r"does not support EAGLE3 interface but aux_hidden_state_outputs was requested",
    ),
    row(
        "server_args_invalid",
        p.cause_of_arguments,
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
        r"[Aa]ddress already in use",
        r"\[[Ee]rrno 98\]",
        r"EADDRINUSE",
        r"[Pp]ort (?P<port>\d+) is (?:already )?(?:in use|occupied|taken)(?![^\n]*(?:[Ww]aiting for|trying))",
        r"Port is already in use|port is already allocated",
        r"\w*port\w* at (?P<port2>\d+) is not available in",
        r"[Ee]rror while attempting to bind on address[^\n]*in use",
        parse=p.address,
        any_level=True,
    ),
)

_SUBSYSTEM = (
    row(
        "nccl_unhandled_system_error",
        p.cause_of_nccl_system,
        r"unhandled system error(?:[^\n]*NCCL version (?P<nccl_version>[\d.]+))?",
        r"ncclSystemError",
        tier="subsystem",
        parse=p.nccl,
    ),
    row(
        "nccl_unhandled_cuda_error",
        None,
        r"unhandled cuda error(?:[^\n]*NCCL version (?P<nccl_version>[\d.]+))?",
        r"ncclUnhandledCudaError",
        tier="subsystem",
        parse=p.nccl,
    ),
    row(
        "cuda_graph_capture_failed",
        None,
        r"Capture (?:\w+ )*(?:cuda|CUDA) graph failed",
        r"(?:CUDA|cuda) ?graph capture failed|[Ff]ailed to capture (?:the )?(?:cuda|CUDA) ?graph",
        r"not permitted when stream is capturing|cudaErrorStreamCapture\w+",
        tier="capture",
    ),
    row(
        "engine_stalled",
        p.stalled_in,
        r"[Ww]atchdog timeout \((?:self\.)?watchdog_timeout=(?P<watchdog_timeout_s>\d+)(?![^\n]*soft=True)",
        r"[Ww]atchdog timeout \(limit",
        r"[Ww]atchdog caught collective operation timeout",
        tier="stall",
    ),
    row(
        "engine_stalled",
        "nccl_init",
        r"Timed out after \d+ seconds waiting for clients|\d+/\d+ clients joined",
        r"Timed out initializing process group|store based barrier",
        tier="stall",
    ),
    row(
        "engine_stalled",
        "forward",
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

    rejected: set[int] = set()

    def accept(line: Line) -> tuple[re.Match, Line] | None:
        # Several branches may lead to the same line.
        if line.position in rejected or (not rule.any_level and log.harmless(line)):
            return None
        match = rule.pattern.search(line.text)
        if match and not log.quotes(line) and (rule.when is None or rule.when(match, line, ctx)):
            refuted = rule.code not in catalogue.NOT_REFUTED_BY_READINESS and ctx.became_ready(line)
            if not refuted and not log.gave_up(line):
                return match, line
        rejected.add(line.position)
        return None

    best: tuple[re.Match, Line] | None = None
    limit = stop + 1 if stop >= 0 else None
    for branch in rule.branches:
        best = log.first(branch, start, limit, accept) or best
        limit = best[1].position if best else limit
    return best
