# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All channels of one case, read once: logs, unit properties, probes, and which run of the unit is in question."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from typing import Any

from . import driver_facts, service_facts
from .text import Line, Log, normalise, readable, shortened

# Where the engine's own words may be, in order of preference.
ENGINE_CHANNELS = ("unit_journal", "command_output", "journal")
KERNEL_CHANNELS = ("kernel_log", "journal", "unit_journal")
CONTAINERS = frozenset(
    {
        "lxc",
        "lxc-libvirt",
        "docker",
        "podman",
        "systemd-nspawn",
        "openvz",
        "rkt",
        "proot",
        "pouch",
        "container-other",
        "containerd",
    }
)
_SYSTEMD = re.compile(r"systemd(?:\[\d+\])?: (.*)$")
_START = re.compile(r"^(?:Starting|Started) ")
_STOPPING = re.compile(r"^Stopping ")
_END = re.compile(
    r"Main process exited|Control process exited|Failed with result|Deactivated successfully|^Stopped |^Failed to start|Succeeded\.$"
)
_READY = ("fired up and ready to roll", "application startup complete")
# The engine prints this once in every run, early.
_ARGUMENTS = ("server_args=",)
# A run of the engine ends here, so a later readiness is another run's.
_RUN_ENDS = (
    "hit an exception",
    "received sigquit",
    "sigquit received",
    "enginecore failed to start",
    "enginecore encountered a fatal error",
    "main process exited",
    "failed with result",
    "scheduled restart job",
    "-- boot ",
    "-- reboot --",
)
# What introduces the traceback of an exception that ends a process.
_FATAL = re.compile(r"hit an exception|[Ff]atal|FATAL|failed to start|[Cc]rashed|[Ss]hutting down")
_ANSWERED = re.compile(r"\"POST /[^\"\n]*\" 200\b")


@dataclass(frozen=True)
class Finding:
    """A rule that applies: the code it stands for, the lines that prove it, and the values read from them."""

    code: str
    cause: str | None
    tier: str
    order: tuple[int, int]
    lines: tuple[str, ...] = ()
    parsed: dict[str, Any] = field(default_factory=dict)


class Context:
    """What the rules look at. Missing means not collected, null means absent on this host, empty means collected, empty."""

    def __init__(self, channels: dict[str, Any]) -> None:
        self.channels = channels
        self._texts: dict[str, str] = {}
        journal = readable(channels.get("unit_journal"))
        self.logs = {
            name: Log(name, journal if name == "unit_journal" else channels.get(name), compact=True)
            for name in set(ENGINE_CHANNELS + KERNEL_CHANNELS)
        }
        self.unit = service_facts.unit(self.text("unit_show"))
        self.driver = driver_facts.collect(self.text)
        self.http = service_facts.http(self.text("http_probe"))
        self.options = service_facts.options(self.text("server_args"))
        self.packages = service_facts.packages(self.text("pip_freeze"))
        self.environment = {
            **service_facts.environment(self.unit.get("Environment", "")),
            **service_facts.environment(self.text("env")),
        }
        self.draft_config = service_facts.json_of(channels.get("draft_config_json"))
        self.target_config = service_facts.json_of(channels.get("target_config_json"))
        self.starts: dict[str, int] = {}
        self.stops: dict[str, int] = {}
        for name in ENGINE_CHANNELS:
            self.starts[name], self.stops[name] = self._window(self.logs[name])
        self.acceptance = service_facts.acceptance(self._run_in_question(journal))
        self._journal = journal
        self._answers: list[int] | None = None
        self._positions: dict[tuple[str, tuple[str, ...]], list[int]] = {}

    def _run_in_question(self, journal: str) -> str:
        """The whole I(journal), repeats included, from the start of the run in question."""
        start = self.starts["unit_journal"]
        if start <= 0:
            return journal
        first = self.logs["unit_journal"].line_at(start).text
        return journal[max(0, journal.rfind(first)) :]

    def log(self, name: str) -> Log:
        """A channel as a log."""
        if name not in self.logs:
            self.logs[name] = Log(name, self.channels.get(name))
        return self.logs[name]

    def search(self, pattern: re.Pattern, *names: str) -> tuple[re.Match, Line] | None:
        """The first line in the first of the channels in which I(pattern) matches."""
        return next((found for found in (self.log(name).search(pattern) for name in names) if found), None)

    def text(self, name: str) -> str:
        """A channel as text, lines cut to what the rules read."""
        if name in self.logs:
            return self.logs[name].text
        if name not in self._texts:
            self._texts[name] = shortened(normalise(self.channels.get(name)))
        return self._texts[name]

    def collected(self, name: str) -> bool:
        """Whether a channel was collected (it may be empty)."""
        return self.channels.get(name) is not None

    @property
    def container(self) -> bool:
        """Whether the evidence comes from inside a container."""
        return self.text("virtualization").strip().lower() in CONTAINERS

    @property
    def unit_name(self) -> str:
        """The unit's name where it is known."""
        name = self.unit.get("Id", "")
        if not name:
            found = re.search(r"systemd\[\d+\]: ([\w@.\\-]+\.service): ", self.logs["unit_journal"].text[-20000:])
            name = found.group(1) if found else ""
        return name

    @property
    def running(self) -> bool:
        """Whether systemd says that the unit runs."""
        return self.unit.get("ActiveState") == "active"

    @property
    def dead(self) -> bool:
        """Whether systemd says that it does not."""
        return self.unit.get("ActiveState") in ("failed", "inactive")

    @property
    def stopped(self) -> bool:
        """Whether the last thing that happened is a stop that someone asked for."""
        return not self.running and any(self.stops[name] >= 0 for name in ("unit_journal", "journal"))

    @property
    def serving(self) -> bool:
        """Whether it runs and the last real request was answered."""
        return (self.running or not self.unit) and self.http["generation_ok"] and not self._late_failure()

    def became_ready(self, line: Line) -> bool:
        """Whether the run that printed I(line) said afterwards that it is ready."""
        at = line.position
        ready = self._next(line.channel, _READY, at)
        if ready < 0:
            return False
        ended = self._next(line.channel, _RUN_ENDS, at)
        begun = self._next(line.channel, _ARGUMENTS, at)
        if begun >= 0 and self._none_since_the_end(line):
            begun = self._next(line.channel, _ARGUMENTS, begun)
        return all(other < 0 or ready < other for other in (ended, begun))

    def went_on(self, line: Line) -> bool:
        """Whether the same run answered a request after I(line), which nothing calls its end."""
        if line.channel != "unit_journal" or any(map(_FATAL.search, self.logs[line.channel].introduction(line))):
            return False
        # Repeats are left out of the log, so the answer is looked for in the whole journal.
        if self._answers is None:
            self._answers = [found.start() for found in _ANSWERED.finditer(self._journal)]
        begin = self._journal.rfind(line.text) if self._answers else -1
        at = bisect.bisect_right(self._answers, begin)
        if begin < 0 or at == len(self._answers):
            return False
        between = self._journal[begin : self._answers[at]].lower()
        return not any(words in between for words in (*_RUN_ENDS, *_ARGUMENTS))

    def _none_since_the_end(self, line: Line) -> bool:
        """Whether the run that printed I(line) had not yet printed its arguments."""
        ends, begins = (self._places(line.channel, hints) for hints in (_RUN_ENDS, _ARGUMENTS))
        ended, begun = (bisect.bisect_right(places, line.position) for places in (ends, begins))
        return begun == 0 or (ended > 0 and begins[begun - 1] < ends[ended - 1])

    def _next(self, channel: str, hints: tuple[str, ...], position: int) -> int:
        """Position of the first line after I(position) that holds one of I(hints); -1 where none does."""
        known = self._places(channel, hints)
        at = bisect.bisect_right(known, position)
        return known[at] if at < len(known) else -1

    def _places(self, channel: str, hints: tuple[str, ...]) -> list[int]:
        known = self._positions.get((channel, hints))
        if known is None:
            lines = (line for hint in hints for line in self.logs[channel].lines_with(hint))
            known = self._positions[channel, hints] = sorted({line.position for line in lines})
        return known

    def _late_failure(self) -> bool:
        lines = [line for line in self.text("http_probe").splitlines() if "POST" in line or "generate" in line]
        return bool(lines) and re.search(r"\b200\b", lines[-1]) is None

    def _window(self, log: Log) -> tuple[int, int]:
        """(start of the series of runs in question, where a requested stop began or -1).

        Runs that systemd chained by automatic restarts belong together, since the first of them holds the cause. A start by
        hand, or a boot, begins a new series; what lies before it is history.
        """
        series, stop, ended = 0, -1, -1
        running = started = automatic = False
        seen_end = False
        for line in self._events(log):
            found = _SYSTEMD.search(line.text)
            if found is None:
                # A boot separator of journalctl.
                series, stop, running, automatic, seen_end = line.position, -1, False, False, True
                continue
            event = found.group(1)
            if "Scheduled restart job" in event:
                automatic = True
            elif "Start request repeated too quickly" in event:
                stop = -1 if stop == ended else stop
            elif _STOPPING.match(event):
                stop = line.position
            elif _START.match(event):
                again = running and event.startswith("Started") and not started
                if not again:
                    if not automatic and (seen_end or running):
                        series, stop = line.position, -1
                    elif automatic:
                        stop = -1
                running, automatic, ended = True, False, -1
                started = event.startswith("Started")
            elif event.startswith("Stopped ") and not automatic and stop < 0:
                # Only a stop job says so, unless the line belongs to an automatic restart.
                stop = ended = ended if ended >= 0 else line.position
                running, seen_end = False, True
            elif _END.search(event):
                ended = line.position if running or not seen_end else ended
                running, seen_end = False, True
        return max(series, self._engine_restart(log, series)), stop

    @staticmethod
    def _events(log: Log) -> list[Line]:
        found = {line.position: line for line in log.lines_with("systemd", every=True)}
        for separator in ("-- boot ", "-- reboot --"):
            found.update({line.position: line for line in log.lines_with(separator, every=True)})
        return [found[position] for position in sorted(found)]

    @staticmethod
    def _engine_restart(log: Log, series: int) -> int:
        """Start of the last engine process that came up, where only the engine's own log tells of several."""
        begin = -1
        for begin_line in log.lines_with("server_args=", series, every=True):
            begin = begin_line.position
        if begin <= series:
            return series
        ready = any(log.has(words, begin) for words in _READY)
        return begin if ready and not log.has("hit an exception", begin) else series
