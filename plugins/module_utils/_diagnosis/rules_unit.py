# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the process and its unit: systemd's verdicts, signals, exceptions, answers, acceptance, configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from . import service_facts
from .context import ENGINE_CHANNELS, Context, Finding
from .engine_parsers import stage_cause
from .text import Line, Log, harmless, quotes, rank_of, shorten

# After this many seconds without a line a start is not "slow" any more; reading weights and compiling may be silent for longer.
STALL_SECONDS = 240
SILENT_STAGE_SECONDS = 900
# Mean tokens per verification round up to which nothing of a draft is accepted, and the lines needed to say so.
COLLAPSED_LENGTH = 1.05
COLLAPSED_LINES = 2
# So many exceptions that a server survived are looked at for the one that it did not.
_MOST_PASSED = 60
_LATE = 1 << 50

_SPAWN_STATUS = {
    200: "workdir",
    203: "binary",
    216: "user",
    217: "user",
    238: "workdir",
    239: "workdir",
    240: "workdir",
    241: "workdir",
    243: "credentials",
}
_NATIVE = {
    "Segmentation fault": "SEGV",
    "Aborted": "ABRT",
    "Bus error": "BUS",
    "Illegal instruction": "ILL",
    "Floating point exception": "FPE",
}
_CRASH_SIGNALS = frozenset({"SEGV", "ABRT", "BUS", "ILL", "FPE", "TRAP", "SYS"})
_DEADLY = _CRASH_SIGNALS | {"KILL", "XCPU", "XFSZ"}
_SPOKEN = {
    "killed": "KILL",
    "segmentation": "SEGV",
    "aborted": "ABRT",
    "bus": "BUS",
    "illegal": "ILL",
    "floating": "FPE",
}
# How launchers, libraries and shells say that a process died by a signal. 128 + number is a shell's or a container's status.
_CHILD_HINTS = (
    "exit",
    "returncode",
    "return code",
    "core proc(s)",
    "terminated",
    "died",
    "signal",
    " sig",
    "killed",
    "segmentation fault",
    "aborted",
    "bus error",
    "illegal instruction",
)
# From here on a line explains what such a death may mean.
_ADVICE = re.compile(r"If exit code is|(?:[Tt]here are some )?potential root causes|[Aa] common cause")
# What a launcher, or systemd, did to a process that would not end; systemd_signal reads systemd's own lines.
_FORCED = re.compile(
    r"\bsystemd(?:\[\d+\])?: |did not|didn't|tim(?:ed|e) ?out|in time|[Gg]raceful|[Ff]orc(?:e|ed|ing|ibly)\b"
)
_STATUS = r"(-\d+|1(?:3[2-9]|5[23])\b)"
_CHILD_SIGNALS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"[Ee]xit[ _-]?(?:[Cc]ode|[Ss]tatus)['\"]?(?:[:= ]|is|of|was)+\(?{_STATUS}",
        r"[Ee]xit[ _-]?[Cc]ode['\"]?[:= ]+-?(SIG\w+)",
        rf"[Rr]eturn[ _]?code['\"]?(?:[:= ]|is|of|was)+\(?{_STATUS}",
        rf"\b(?:[Ee]xited|[Tt]erminated|[Dd]ied|[Cc]rashed|[Ee]nded)(?: unexpectedly)? (?:with|on) (?:exit )?(?:code |status )?\(?{_STATUS}",
        r"core proc\(s\): \{[^}]*: (-\d+)",
        r"<Signals\.(SIG\w+)",
        r"\b(?:with|by|due to|on|of|from|[Cc]aught|[Rr]eceived|[Ff]atal) (?:a )?[Ss]ignal:? (?:SIG)?(\w+)",
        r": [Ss]ignal: (\w+)",
        r"\bSignal(?: (\d+) \(SIG\w+\) received|: (\w+)[\w ]* \(\d+\))",
        r"\b(?:[Tt]erminated|[Kk]illed|[Dd]ied|[Cc]rashed|[Ee]xited|was sent|[Rr]eceived)(?: \w+)? (?:by |with |of |from |on |due to |a )?(SIG[A-Z]+)",
        # A shell about its child, by itself or with the place in the script.
        r"(?:^|[\d|]\s+|\]: )(Killed|Segmentation fault|Aborted|Bus error|Illegal instruction)(?: +\(core dumped\))?(?:$|\s{2,}\S)",
        r"fatal error: (Killed|Segmentation fault|Aborted|Bus error) signal terminated program",
    )
)
# Exceptions that only report that something else died.
_ECHO = re.compile(
    r"KeyboardInterrupt|SystemExit|CancelledError|EOFError|ConnectionResetError|BrokenPipeError|ConnectionRefusedError|ContextTerminated"
    r"|Initialization failed|died during initialization|Engine core initialization failed|Engine process failed|EngineDeadError"
    r"|EngineCore encountered an issue|DistStoreError|recvValue failed|Connection closed by|Connection reset by peer|Broken pipe"
    r"|process \d+ terminated with|py-?spy|ProcessExitedException|ProcessRaisedException|WorkerProc initialization failed"
    r"|[Cc]apture (?:\w+ )*cuda graph failed|scheduler is dead|ncclRemoteError|remote process exited|Worker failed with error"
)
_EXCEPTION = re.compile(
    r"(?:^|[\s\]:>|\"(])((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)|Exception)(?::\s+(\S.*)|\s*:?\s*$)"
)
# Exceptions that are called something else, as modules of that name define them (triton.runtime.errors.OutOfResources).
_ODD_EXCEPTION = re.compile(r"(?:^|[\s\]:>|])((?:[A-Za-z_]\w*\.)+[A-Z]\w*(?:\([\w.]+\))?):\s+(\S.*)")
_ODD_HINTS = ("errors.", "exceptions.", "subprocess.timeoutexpired")
_MARKER_HINTS = (
    "received sigquit",
    "sigquit received",
    "hit an exception",
    "usually means the child failed",
    "usually means one child failed",
    "child process unexpectedly failed",
)
# Notes of other launchers, which leave nothing else to say either.
_ECHO_HINTS = (
    "engine core initialization failed",
    "enginedeaderror",
    "engine process failed to start",
    "initialization failed. please see the error",
    "ncclremoteerror",
    "remote process exited or there was a network error",
    "scheduler is dead",
)


def _lines(ctx: Context, hint: str, channel: str = "unit_journal") -> Iterator[Line]:
    start, stop = ctx.starts.get(channel, 0), ctx.stops.get(channel, -1)
    for line in ctx.logs[channel].lines_with(hint, start):
        if 0 <= stop < line.position:
            return
        yield line


def _anywhere(ctx: Context, *hints: str) -> Iterator[tuple[int, Line]]:
    for number, channel in enumerate(ENGINE_CHANNELS):
        for hint in hints:
            for line in _lines(ctx, hint, channel):
                yield number, line


def _found(code: str, cause: str | None, tier: str, line: Line | None, number: int = 0, **parsed: object) -> Finding:
    order = (number * (1 << 40) + line.position, 500) if line is not None else (_LATE, 500)
    return Finding(code, cause, tier, order, (shorten(line.text),) if line is not None else (), dict(parsed))


def marker(ctx: Context) -> Line | None:
    """The launcher's note that a child failed: a marker, never a diagnosis."""
    return next((line for _number, line in _anywhere(ctx, *_MARKER_HINTS)), None)


def spawn(ctx: Context) -> Finding | None:
    """systemd could not start the process (statuses 200 to 243)."""
    values = service_facts.unit_values(ctx.unit)
    status = values.get("status")
    where = None
    for _number, line in _anywhere(ctx, "status=2"):
        found = re.search(r"code=exited, status=(2\d\d)/([A-Z_]+)", line.text)
        if found and 200 <= int(found.group(1)) <= 243:
            status, where = int(found.group(1)), line
            break
    step = None
    for _number, line in _anywhere(ctx, "failed at step"):
        found = re.search(r"Failed at step (\w+) spawning (.+?): (.+)$", line.text)
        if found:
            step = (found, line)
            break
    interpreter = next((line for _number, line in _anywhere(ctx, "bad interpreter")), None)
    if status is None and step is None:
        missing = next((line for _number, line in _anywhere(ctx, "failed to load environment files")), None)
        if missing is not None:
            return _found("exec_missing", "environment", "spawn", missing)
        for hint, cause in (
            ("exec format error", "interpreter"),
            ("executable file not found in", "binary"),
            # The launchers' own refusal to serve without the key that the unit was given.
            ("without its api key the server would be open", "credentials"),
            ("without it the router would be open", "credentials"),
        ):
            # Python says so of programs that it starts.
            line = next((line for _number, line in _anywhere(ctx, hint) if "[Errno 8]" not in line.text), None)
            if line is not None:
                return _found("exec_missing", cause, "spawn", line)
        if interpreter is None:
            return None
        return _found("exec_missing", "interpreter", "spawn", interpreter, **_path_of(interpreter.text))
    if status is None and step is not None:
        status = {"CHDIR": 200, "EXEC": 203, "GROUP": 216, "USER": 217, "NAMESPACE": 226, "CREDENTIALS": 243}.get(
            step[0].group(1)
        )
    if status is None:
        return None
    parsed: dict[str, object] = {"status": status}
    if status == 200:
        parsed["workdir"] = ctx.unit.get("WorkingDirectory", "").lstrip("!-") or None
        named = next((line for _n, line in _anywhere(ctx, "changing to the requested working directory")), None)
        found = re.search(r"working directory (?:'|\")?(/\S+?)(?:'|\")? failed", named.text) if named else None
        if found:
            parsed["workdir"] = found.group(1)
        if parsed["workdir"] is None:
            del parsed["workdir"]
    elif status in (216, 217):
        said = next((line for _n, line in _anywhere(ctx, "credentials", "unknown user", "unknown group")), None)
        found = re.search(r"(?:user|group) ['\"]([\w.-]+)['\"]", said.text) if said else None
        user = ctx.unit.get("User") or ctx.unit.get("Group") or (found.group(1) if found else None)
        if user:
            parsed["user"] = user
    elif step is not None:
        parsed["path"] = step[0].group(2)
    else:
        found = re.search(r"path=(\S+)", ctx.unit.get("ExecStart", ""))
        if found:
            parsed["path"] = found.group(1)
    cause = _SPAWN_STATUS.get(status)
    if status == 203:
        cause = _exec_cause(ctx, str(parsed.get("path", "")), step[0].group(3) if step else "")
    evidence = step[1] if step else where
    finding = _found("exec_missing", cause, "spawn", evidence, **parsed)
    if evidence is None:
        return Finding(finding.code, cause, "spawn", finding.order, (f"ExecMainStatus={status}",), parsed)
    return finding


def _path_of(text: str) -> dict[str, object]:
    found = re.search(r"(/[^\s:]+): (/[^\s:]+): bad interpreter|(/[^\s:]+): bad interpreter", text)
    return {"path": found.group(2) or found.group(3) or found.group(1)} if found else {}


def _no_execute_bit(text: str, path: str) -> bool:
    """Whether a line of stat or ls shows I(path) as a file that nobody may execute."""
    name = re.escape(path)
    mode = re.search(rf"^0?(\d{{3,4}})\s.*{name}\s*$", text, re.M)
    listed = re.search(rf"^-([rwxsStT-]{{9}})\s.*{name}\s*$", text, re.M)
    return bool((mode and not int(mode.group(1), 8) & 0o111) or (listed and not set("xst") & set(listed.group(1))))


def _exec_cause(ctx: Context, path: str, reason: str) -> str:
    if re.search(r"Permission denied|EACCES", reason) or any(
        True for _n, line in _anywhere(ctx, "permission denied") if "systemd" in line.text and "xec" in line.text
    ):
        return "permission"
    if "Exec format error" in reason:
        return "interpreter"
    for channel in ctx.channels:
        text = ctx.text(channel)
        if (
            channel.startswith("stat_")
            and path
            and path in text
            and "No such file" not in text
            and "cannot" not in text
        ):
            if _no_execute_bit(text, path):
                return "permission"
            # The file is there, so what is missing is what it points to or is run by.
            return "interpreter"
    located = any(True for _n, _line in _anywhere(ctx, "failed to locate executable"))
    executed = any(True for _n, line in _anywhere(ctx, "failed to execute") if "No such file" in line.text)
    return "interpreter" if executed and not located else "binary"


def exception(ctx: Context) -> Iterator[Finding]:
    """The first exception that is not merely the echo of another death, and the first native crash."""
    failed = _failed(ctx)
    for number, channel in enumerate(ENGINE_CHANNELS):
        if channel == "journal" and ctx.logs["unit_journal"]:
            continue
        line = _first_exception(ctx, channel, handled=False) if failed else None
        tier = "exception"
        if line is None and failed:
            # One that the server survived is named where nothing else is.
            line, tier = _first_exception(ctx, channel, handled=True), "residue"
        if line is not None:
            found = _EXCEPTION.search(line.text) or _odd_exception(ctx.logs[channel], line)
            text = shorten(line.text)
            if found:
                said = found.group(2) or _said_below(ctx.logs[channel], line)
                text = said if said.startswith(found.group(1)) else found.group(1) + (f": {said}" if said else "")
            rank = rank_of(line.text)
            if rank is None:
                rank = next(
                    (rank_of(m.text) for m in _lines(ctx, "hit an exception", channel) if m.position <= line.position),
                    None,
                )
            parsed = {"exception": text, **({} if rank is None else {"rank": rank})}
            finding = _found("engine_exception", None, tier, line, number, **parsed)
            below = () if found is None or found.group(2) or text == found.group(1) else (text,)
            yield replace(finding, lines=(*finding.lines, *below))
        yield from _crash(ctx, channel, number)


def _failed(ctx: Context) -> bool:
    """Whether the evidence shows a failure at all: an exception in the log of a running server is a handled one."""
    if ctx.running and marker(ctx) is None:
        return any(True for _n, _line in _anywhere(ctx, "main process exited", "failed with result"))
    return True


def _first_exception(ctx: Context, channel: str, handled: bool) -> Line | None:
    """The first exception that the server survived, or the first that it did not."""
    best: Line | None = None
    hints = (
        "error:",
        "exception:",
        "error\n",
        "exception\n",
        "no module named",
        "terminate called after throwing",
        *_ODD_HINTS,
    )
    seen: set[int] = set()
    passed = 0
    for hint in hints:
        for line in _lines(ctx, hint, channel):
            if best is not None and line.position >= best.position:
                break
            if line.position in seen:
                continue
            seen.add(line.position)
            if hint == "terminate called after throwing":
                if not _ECHO.search(ctx.logs[channel].following(line, 2)):
                    best = line
                continue
            known = (
                _EXCEPTION.search(line.text)
                or re.search(r"/python[\d.]*: No module named \S+$", line.text)
                or _odd_exception(ctx.logs[channel], line)
            )
            if (
                not known
                or _ECHO.search(line.text)
                or quotes(line.text)
                or harmless(line.text)
                or child_signal(line.text)
            ):
                continue
            if _survived(ctx, line):
                continue
            if ctx.went_on(line) is not handled:
                passed += 1
                if passed == _MOST_PASSED:
                    return best
                continue
            best = line
            break
    return best


def _said_below(log: Log, line: Line) -> str:
    """The message of an exception that begins with an empty line: the error in a list below it, else its first line."""
    below = [text.strip() for text in log.following(line, 30).split("\n")[1:] if text.strip()]
    listed = next(
        (text[2:] for text in below if re.match(r"- \w+Error: .*(?:cannot open|No such|undefined)", text)), None
    )
    return shorten(listed or (below[0] if below and not _EXCEPTION.search(below[0]) else ""))


def _odd_exception(log: Log, line: Line) -> re.Match | None:
    """An exception by its place: the line after a traceback's last frame."""
    found = _ODD_EXCEPTION.search(line.text)
    if found is None or line.position == 0:
        return None
    above = log.line_at(line.position - 1).text
    in_a_frame = re.search(r"(?:^|[\]:|] ?) {4,}\S", above) or re.search(r'  File "[^"]+", line \d+', above)
    return found if in_a_frame else None


def _crash(ctx: Context, channel: str, number: int) -> Iterator[Finding]:
    log = ctx.logs[channel]
    for line in _lines(ctx, "fatal python error", channel):
        name = next((signal for words, signal in _NATIVE.items() if words in line.text), None)
        if name is None or _survived(ctx, line):
            continue
        yield _found(
            "killed_by_signal", "native_crash", "exception", line, number, signal=name, child=True, **_frame(log, line)
        )
        break
    for hint, name in (
        ("segfault encountered", "SEGV"),
        ("segmentation fault (core dumped)", "SEGV"),
        ("*** sigsegv", "SEGV"),
        ("*** sigabrt", "ABRT"),
        ("double free or corruption", "ABRT"),
        ("free(): invalid", "ABRT"),
        ("malloc(): ", "ABRT"),
        ("corrupted size vs. prev_size", "ABRT"),
        ("stack smashing detected", "ABRT"),
    ):
        for line in _lines(ctx, hint, channel):
            if not quotes(line.text) and not _survived(ctx, line):
                yield _found("killed_by_signal", "native_crash", "exception", line, number, signal=name, child=True)
                break
    ended = _child_signal(ctx, channel)
    if ended is None:
        return
    line, name = ended
    rank = rank_of(line.text)
    numbered = re.search(r"\bscheduler_(\d+)\b", line.text)
    if rank is None and numbered:
        rank = int(numbered.group(1))
    if rank is None:
        rank = next((rank_of(m.text) for m in _lines(ctx, "scheduler", channel) if rank_of(m.text) is not None), None)
    extra: dict[str, object] = {} if rank is None else {"rank": rank}
    pid = re.search(r"\b(?:pid|PID)[=: ]+(\d+)", line.text)
    if pid:
        extra["pid"] = int(pid.group(1))
    cause = "native_crash" if name in _CRASH_SIGNALS else None
    yield _found("killed_by_signal", cause, "exception", line, number, signal=name, child=True, **extra)


def _child_signal(ctx: Context, channel: str) -> tuple[Line, str] | None:
    """The first line by which a launcher, a library or a shell says that a process died by a signal, and the signal."""
    best: tuple[Line, str] | None = None
    for hint in _CHILD_HINTS:
        for line in _lines(ctx, hint, channel):
            if best is not None and line.position >= best[0].position:
                break
            name = child_signal(line.text)
            if name is not None and not _own_doing(ctx, channel, name, line) and not _survived(ctx, line):
                best = line, name
                break
    return best


def _survived(ctx: Context, line: Line) -> bool:
    """Whether the engine got ready all the same, or did without what I(line) is about."""
    return ctx.became_ready(line) or ctx.logs[line.channel].gave_up(line)


def _own_doing(ctx: Context, channel: str, name: str, line: Line) -> bool:
    """Once a child failed the launcher kills the others."""
    if name != "KILL":
        return False
    notes = (next(_lines(ctx, hint, channel), None) for hint in _MARKER_HINTS if hint != "hit an exception")
    return any(note is not None and note.position < line.position for note in notes)


def child_signal(text: str) -> str | None:
    """The signal by which a line says that a process died; None for those by which a launcher takes its children down."""
    if _FORCED.search(text):
        return None
    text = _ADVICE.split(shorten(text, 2000), maxsplit=1)[0]
    if quotes(text):
        return None
    for pattern in _CHILD_SIGNALS:
        for found in pattern.finditer(text):
            name = _signal_of(next(group for group in found.groups() if group))
            if name in _DEADLY:
                return name
    return None


def _signal_of(said: str) -> str:
    spoken = _SPOKEN.get(said.lower().split(" ", 1)[0])
    if spoken:
        return spoken
    if said.lstrip("-").isdigit():
        number = abs(int(said))
        return service_facts.signal_name(number - 128 if number > 128 else number)
    return re.sub(r"^-?SIG", "", said.upper())


def _frame(log: Log, line: Line) -> dict[str, object]:
    """The Python function in which the thread that crashed was; the others come first."""
    below = log.text[line.position : line.position + 40_000]
    at = max(0, below.find("Current thread"))
    found = re.search(r'File "[^"]+", line \d+ in (\S+)', below[at : at + 4000])
    return {"native_frame": found.group(1)} if found else {}


def systemd_signal(ctx: Context) -> Finding | None:
    """The main process died by a signal, says systemd. KILL after the launcher's marker is its own doing."""
    where, name = None, None
    for _number, line in _anywhere(ctx, "code=killed", "code=dumped"):
        found = re.search(r"code=(?:killed|dumped), status=\d+/(\w+)", line.text)
        if found and "Main process exited" in line.text:
            where, name = line, found.group(1)
            break
    values = service_facts.unit_values(ctx.unit)
    shown = values.get("signal")
    if shown is None and 128 < int(values.get("exit_code") or 0) < 160:
        # A shell or container runtime passes the signal on as 128 + number.
        shown = service_facts.signal_name(int(values["exit_code"]) - 128)
    if name is None and shown is None:
        return None
    name = name or str(shown)
    if where is None and (ctx.stopped or not ctx.collected("unit_journal")):
        return None
    if name == "KILL" and marker(ctx) is not None:
        return None
    cause = "native_crash" if name in _CRASH_SIGNALS else None
    finding = _found("killed_by_signal", cause, "systemd", where, signal=name)
    return (
        finding
        if finding.lines
        else Finding(
            finding.code, cause, "systemd", finding.order, (f"Result={ctx.unit.get('Result')}",), {"signal": name}
        )
    )


def kernel_segfault(ctx: Context) -> Finding | None:
    """The kernel saw a process of the engine fault."""
    for channel in ("kernel_log", "journal"):
        for hint, name in (("segfault at", "SEGV"), ("trap invalid opcode", "ILL"), ("general protection", "SEGV")):
            for line in ctx.logs[channel].lines_with(hint):
                found = re.search(r"([\w:. -]+)\[(\d+)\](?::| general)", line.text)
                if found and re.search(r"python|sglang|vllm|pt_main|ddtree", found.group(1)):
                    library = re.search(r" in (\S+?)\[", line.text)
                    parsed = {
                        "signal": name,
                        "pid": int(found.group(2)),
                        **({"library": library.group(1)} if library else {}),
                    }
                    return Finding("killed_by_signal", "native_crash", "systemd", (0, 0), (shorten(line.text),), parsed)
    return None


def start_timeout(ctx: Context) -> Finding | None:
    """systemd gave up on a start."""
    where = next(
        (
            line
            for _n, line in _anywhere(ctx, "timed out")
            if re.search(r"[Ss]tart(?:-\w+)? operation timed out|State 'start[\w-]*' timed out", line.text)
        ),
        None,
    )
    stopping = any(True for _n, line in _anywhere(ctx, "state 'stop") if "timed out" in line.text)
    # RuntimeMaxSec= ends in the same result.
    limited = any(True for _n, _line in _anywhere(ctx, "reached runtime time limit"))
    if where is None and (ctx.unit.get("Result") != "timeout" or stopping or limited or ctx.stopped):
        return None
    parsed = {}
    span = service_facts.seconds(ctx.unit.get("TimeoutStartUSec", ""))
    if span is not None:
        parsed["timeout_start_s"] = span
    finding = _found("start_timeout", None, "systemd", where, **parsed)
    return (
        finding
        if where is not None
        else Finding("start_timeout", None, "systemd", finding.order, ("Result=timeout",), parsed)
    )


def start_limit(ctx: Context) -> Finding | None:
    """The restart limit, which is never a cause by itself."""
    where = next((line for _n, line in _anywhere(ctx, "start request repeated too quickly", "start-limit-hit")), None)
    if where is None and ctx.unit.get("Result") != "start-limit-hit":
        return None
    counter = [
        re.search(r"restart counter is at (\d+)", line.text) for _n, line in _anywhere(ctx, "restart counter is at")
    ]
    parsed = {"restarts": int(counter[-1].group(1))} if counter and counter[-1] else {}
    finding = _found("start_limit_hit", None, "residue", where, **parsed)
    return (
        finding
        if where is not None
        else Finding("start_limit_hit", None, "residue", finding.order, ("Result=start-limit-hit",), parsed)
    )


def no_detail(ctx: Context) -> Finding | None:
    """Only the launcher's marker is left in the window."""
    line = marker(ctx) or next((line for _n, line in _anywhere(ctx, *_ECHO_HINTS) if not quotes(line.text)), None)
    return _found("engine_exception", "no_detail", "residue", line) if line is not None else None


_READY_WORDS = re.compile(r"fired up and ready|Application startup complete|Uvicorn running")
_BATCH_WORDS = re.compile(r"(Prefill|Decode) batch")
_SILENT_STAGES = re.compile(
    r"Load weight begin|Loading (?:safetensors|pt) checkpoint|[Cc]ompil|\bJIT\b|autotun|[Ww]arm-?up"
)
_LOUD_STAGES = re.compile(
    r"Init torch distributed begin|Load weight end|Capture (?:\w+ )*cuda graph begin|Memory pool end"
)


def _last(pattern: re.Pattern, text: str) -> int:
    return max((found.start() for found in pattern.finditer(text)), default=-1)


def _should_move(window: str, silent: int, unanswered: bool) -> bool:
    """Whether silence means a hang: an idle server and some stages of a start write nothing for long."""
    if _READY_WORDS.search(window):
        if unanswered:
            return True
        # A prefill is followed by decoding or by the answer's line in the access log.
        batches = list(_BATCH_WORDS.finditer(window))
        return bool(batches) and batches[-1].group(1) == "Prefill" and '" 200' not in window[batches[-1].end() :]
    if _last(_SILENT_STAGES, window) > _last(_LOUD_STAGES, window):
        return silent >= SILENT_STAGE_SECONDS
    return True


def stalled(ctx: Context) -> Finding | None:
    """No line for long while the unit runs."""
    silent = service_facts.number(ctx.text("seconds_since_last_line"))
    if silent is None or silent < STALL_SECONDS or ctx.dead or ctx.http["generation_ok"]:
        return None
    journal = ctx.logs["unit_journal"]
    window = journal.text[ctx.starts["unit_journal"] :]
    cause = stage_cause(window)
    if not window.strip() or not _should_move(window, silent, ctx.http["generation_bad"]):
        return None
    last = journal.line_at(max(0, len(journal.text.rstrip()) - 1))
    finding = _found("engine_stalled", cause, "stall", last)
    iommu = re.search(r"(?:amd_|intel_)iommu=on", ctx.text("kernel_cmdline"))
    return Finding(
        finding.code,
        cause,
        "stall",
        finding.order,
        (*finding.lines, f"no line for {silent} s"),
        {"iommu_on": True} if iommu else {},
    )


def not_serving(ctx: Context) -> Finding | None:
    """Health or models answer, real requests do not."""
    http = ctx.http
    if ctx.dead or marker(ctx) is not None:
        return None
    if not http["health"] or not http["generation_bad"]:
        return _unhealthy(ctx)
    if http["generation_ok"] and http.get("first_answer_s") is None and ctx.serving:
        return None
    lines = tuple(line.strip() for line in ctx.text("http_probe").splitlines() if line.strip())[:4]
    parsed = {key: http[key] for key in ("health_s", "first_answer_s") if key in http}
    ready = any(True for _n, _line in _anywhere(ctx, "fired up and ready"))
    warm = any(True for _n, _line in _anywhere(ctx, "warmup", "warm up", "warm-up"))
    answered_later = http["generation_ok"] and ctx.serving
    cause = "warmup" if answered_later or (warm and not ready) else "hang"
    return Finding("ready_but_not_serving", cause, "service", (_LATE, 0), lines, parsed)


def _unhealthy(ctx: Context) -> Finding | None:
    if ctx.http["generation_ok"]:
        return None
    line = next((line for _n, line in _anywhere(ctx, "couldn't get a response from detokenizer")), None)
    return _found("ready_but_not_serving", "hang", "service", line) if line is not None else None


def acceptance(ctx: Context) -> Finding | None:
    """Speculation accepts nothing over several lines, or only pretends to."""
    facts = ctx.acceptance
    simulated = ctx.environment.get("SGLANG_SIMULATE_ACC_LEN", "")
    if not facts:
        return None
    if re.match(r"^[\d.]+$", simulated) and float(simulated) > 0:
        lines = (f"SGLANG_SIMULATE_ACC_LEN={simulated}", f"accept len {facts['accept_len']:.2f} (median)")
        return Finding("spec_acceptance_collapsed", "simulated", "service", (_LATE, 0), lines)
    if facts["_accept_lines"] < COLLAPSED_LINES or facts["accept_len"] > COLLAPSED_LENGTH:
        return None
    line = f"accept len {facts['accept_len']:.2f} (median of {facts['_accept_lines']} lines)"
    return Finding("spec_acceptance_collapsed", None, "service", (_LATE, 0), (line,))


def stale(ctx: Context) -> Finding | None:
    """systemd runs an older version of the unit than the one on disk."""
    if ctx.unit.get("NeedDaemonReload") != "yes" or ctx.serving:
        return None
    return Finding(
        "unit_stale",
        "daemon_reload",
        "residue",
        (_LATE, 0),
        ("NeedDaemonReload=yes",),
        {"unit": ctx.unit_name} if ctx.unit_name else {},
    )


def pair_values(ctx: Context) -> dict[str, object]:
    """What the two configurations say about each other."""
    draft, target = ctx.draft_config, ctx.target_config
    target = {**target, **(target.get("text_config") or {})}
    inner = draft.get("dflash_config") if isinstance(draft.get("dflash_config"), dict) else {}
    values: dict[str, object] = {}
    ids = inner.get("target_layer_ids", draft.get("target_layer_ids"))
    if isinstance(ids, list) and ids and all(isinstance(item, int) for item in ids):
        values["max_target_layer_id"] = max(ids)
    for key, item in (
        ("target_num_layers", target.get("num_hidden_layers")),
        ("vocab_size", target.get("vocab_size")),
        ("mask_token_id", inner.get("mask_token_id", draft.get("mask_token_id"))),
        ("draft_block_size", draft.get("block_size", inner.get("block_size"))),
    ):
        if isinstance(item, int):
            values[key] = item
    return values


def pair(ctx: Context) -> Finding | None:
    """The drafter's configuration, and whether it fits the target's."""
    draft, target = ctx.draft_config, ctx.target_config
    if not draft or not re.match(r"DFlash", " ".join(map(str, draft.get("architectures") or []))):
        return None
    inner = draft.get("dflash_config") if isinstance(draft.get("dflash_config"), dict) else {}
    text = {**target, **(target.get("text_config") or {})}
    values = pair_values(ctx)
    ids = inner.get("target_layer_ids", draft.get("target_layer_ids"))
    blocks = {draft.get("block_size"), inner.get("block_size")} - {None}
    layers, hidden = values.get("target_num_layers"), text.get("hidden_size")
    vocabulary, mask = values.get("vocab_size"), values.get("mask_token_id")
    promised = draft.get("num_target_layers")
    checks: tuple[tuple[bool, str, str, str], ...] = (
        (
            not ids,
            "draft_config_invalid",
            "target_layer_ids_missing",
            "the drafter's configuration has no target_layer_ids",
        ),
        (len(blocks) > 1, "draft_config_invalid", "block_size", f"two block sizes: {sorted(map(str, blocks))}"),
        (
            isinstance(mask, int) and isinstance(vocabulary, int) and mask >= vocabulary,
            "draft_config_invalid",
            "mask_token",
            f"mask_token_id {mask}, vocabulary of the target {vocabulary}",
        ),
        (
            isinstance(layers, int)
            and isinstance(values.get("max_target_layer_id"), int)
            and values["max_target_layer_id"] >= layers,  # type: ignore[operator]
            "draft_target_mismatch",
            "target_layer_ids",
            f"highest target layer {values.get('max_target_layer_id')}, layers of the target {layers}",
        ),
        (
            isinstance(promised, int) and isinstance(layers, int) and promised != layers,
            "draft_target_mismatch",
            "target_layer_ids",
            f"drafter made for {promised} target layers, the target has {layers}",
        ),
        (
            isinstance(draft.get("hidden_size"), int) and isinstance(hidden, int) and draft["hidden_size"] != hidden,
            "draft_target_mismatch",
            "hidden_size",
            f"hidden size of the drafter {draft.get('hidden_size')}, of the target {hidden}",
        ),
    )
    for wrong, code, cause, line in checks:
        if wrong:
            return Finding(code, cause, "specific", (_LATE, 0), (line,))
    return None


def requested_stop(ctx: Context) -> Finding | None:
    """The last thing that happened is a stop that someone asked for."""
    if not ctx.stopped:
        return None
    channel = next(name for name in ("unit_journal", "journal") if ctx.stops[name] >= 0)
    line = ctx.logs[channel].line_at(ctx.stops[channel])
    return Finding("no_fault", "requested_stop", "benign", (0, 0), (shorten(line.text),))


_TROUBLE = re.compile(
    r"\b(?:[Ff]ail|[Ee]rror|ERROR|FATAL|[Ff]atal|[Ee]xception|[Kk]illed|[Aa]bort|[Tt]imed out|exited|refus|denied|[Cc]annot|[Uu]nable)"
)


def healthy(ctx: Context) -> Finding | None:
    """Positive evidence that all is well. Missing evidence is none."""
    if ctx.serving:
        return Finding("no_fault", None, "benign", (1, 0), ("a real generation was answered",))
    if ctx.dead or ctx.unit.get("ActiveState") == "activating" or ctx.http["generation_bad"] or ctx.http["refused"]:
        return None
    if ctx.acceptance and ctx.acceptance["accept_len"] > COLLAPSED_LENGTH:
        return Finding("no_fault", None, "benign", (2, 0), (f"accept len {ctx.acceptance['accept_len']:.2f}",))
    journal = ctx.logs["unit_journal"]
    if any(True for _n, _line in _anywhere(ctx, "fired up and ready")):
        return Finding(
            "no_fault", None, "benign", (3, 0), ("the server reports that its own warm-up request was answered",)
        )
    if journal.text.strip() and (ctx.unit or ctx.collected("http_probe") or _TROUBLE.search(journal.text)):
        return None
    facts = ctx.driver
    loaded, user = facts.get("kernel_module_version"), facts.get("user_space_version")
    wsl = ctx.text("virtualization").strip().lower() == "wsl"
    works = ctx.text("nvidia_smi_rc").strip() == "0" or (facts.get("driver_version") and ctx.text("nvidia_smi").strip())
    if works or (wsl and facts.get("driver_version")) or (loaded and user and loaded == user):
        told = bool(loaded and user) or bool(facts.get("driver_version"))
        line = "driver and library answer with matching versions" if told else "nvidia-smi answers"
        return Finding("no_fault", None, "benign", (4, 0), (line,))
    return None


RULES: tuple[Callable[[Context], Finding | None], ...] = (
    spawn,
    systemd_signal,
    kernel_segfault,
    start_timeout,
    start_limit,
    no_detail,
    stalled,
    not_serving,
    acceptance,
    stale,
    pair,
    requested_stop,
    healthy,
)
