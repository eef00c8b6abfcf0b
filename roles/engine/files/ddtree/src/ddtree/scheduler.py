# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Many clients, one generator: a bounded queue and one thread that runs rounds.

Waiting requests are admitted in order of arrival, one prompt chunk at a time, and every loop then gives all running requests one
verify round together. So nobody waits for another's whole output, and a long prompt delays the others by one chunk
per round. What a request produces is handed to its `sink` from this thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ddtree.generate import Generator, Prefill, Round, Sequence
from ddtree.sampling import SamplingParams
from ddtree.text import TextStream

log = logging.getLogger("ddtree.scheduler")


class QueueFull(Exception):
    """No place for another waiting request."""


class Stopped(Exception):
    """The scheduler accepts no more work."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a job. `text` is new output; a `finish_reason` or an `error` is the last event of a job."""

    text: str = ""
    finish_reason: str | None = None
    error: str | None = None


@dataclass(eq=False)
class Job:
    """A request in the scheduler. `sink` is called from the scheduler's thread and must not block."""

    prompt: list[int]
    params: SamplingParams
    text: TextStream
    sink: Callable[[Event], None]
    sequence: Sequence = field(init=False)
    cancelled: bool = False
    _read: int = 0

    def __post_init__(self) -> None:
        self.sequence = Sequence(self.prompt, self.params)

    @property
    def completion_tokens(self) -> int:
        """Output tokens that count: up to the one that completed a stop string."""
        return self._read

    def deliver(self) -> bool:
        """Pass new tokens on; true when the job has ended, by its sequence's end or by a stop string."""
        while self._read < len(self.sequence.output):
            self._read += 1
            if self.text.push(self.sequence.output[self._read - 1]):
                break
        reason = "stop" if self.text.stopped else self.sequence.finish_reason
        if reason:
            self.text.finish()
        new = self.text.take()
        if new or reason:
            self.sink(Event(text=new, finish_reason=reason))
        return reason is not None


class Scheduler(threading.Thread):
    """Owns the generator. `observe` is called with every round, for metrics."""

    def __init__(
        self,
        generator: Generator,
        max_queue: int = 64,
        max_batch: int = 8,
    ) -> None:
        super().__init__(name="ddtree-scheduler", daemon=True)
        self.generator = generator
        self.max_queue = max_queue
        self.max_batch = max_batch
        self.observe: Callable[[Round], None] = lambda _round: None
        self._change = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._prefill: tuple[Job, Prefill] | None = None
        self._stopping = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running) + (self._prefill is not None)

    def submit(self, jobs: list[Job], urgent: bool = False) -> None:
        """Queue jobs, all or none. `urgent` ones (health checks) go in front and past the limit."""
        with self._change:
            if self._stopping or (self.ident is not None and not self.is_alive()):
                raise Stopped
            if urgent:
                self._waiting.extendleft(jobs)
            elif len(self._waiting) + len(jobs) > self.max_queue:
                raise QueueFull
            else:
                self._waiting.extend(jobs)
            self._change.notify()

    def cancel(self, jobs: list[Job]) -> None:
        """Forget jobs; their cache rows are free after the round under way. Ended jobs are ignored."""
        with self._change:
            for job in jobs:
                job.cancelled = True
            self._change.notify()

    def stop(self) -> None:
        """Accept nothing more, finish what is queued, then end the thread."""
        with self._change:
            self._stopping = True
            self._change.notify()

    def run(self) -> None:
        while self._wait_for_work():
            try:
                self._forget_cancelled()
                self._prefill_step()
                self._round()
            except Exception:
                log.exception("a round failed; the requests in it are given up")
                self._give_up("the engine failed on this request; the server's log has the reason")

    def _wait_for_work(self) -> bool:
        with self._change:
            while not (self._waiting or self._running or self._prefill):
                if self._stopping:
                    return False
                self._change.wait()
            return True

    def _forget_cancelled(self) -> None:
        with self._change:
            self._waiting = deque(job for job in self._waiting if not job.cancelled)
        gone = [job for job in self._running if job.cancelled]
        if gone:
            self.generator.drop([job.sequence for job in gone])
            self._running = [job for job in self._running if not job.cancelled]
        if self._prefill and self._prefill[0].cancelled:
            self._prefill = None

    def _prefill_step(self) -> None:
        if self._prefill is None:
            with self._change:
                if not self._waiting or len(self._running) >= self.max_batch:
                    return
                job = self._waiting.popleft()
                self._prefill = (job, self.generator.prefill([job.sequence]))
        job, prefill = self._prefill
        if prefill.step():
            self._prefill = None
            self._running.append(job)
            self._deliver([job])

    def _round(self) -> None:
        if self.generator.running:
            self.observe(self.generator.step())
            self._deliver(list(self._running))

    def _deliver(self, jobs: list[Job]) -> None:
        ended = [job for job in jobs if not job.cancelled and job.deliver()]
        self.generator.drop([job.sequence for job in ended])
        self._running = [job for job in self._running if job not in ended]

    def _give_up(self, reason: str) -> None:
        jobs = list(self._running)
        if self._prefill:
            jobs.append(self._prefill[0])
        self._running, self._prefill = [], None
        self.generator.reset()
        for job in jobs:
            job.sink(Event(error=reason))
