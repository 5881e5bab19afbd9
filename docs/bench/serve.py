"""The server with many clients, and bad ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.results import Result
from adlm.viz.page import Section


@dataclass(frozen=True, kw_only=True)
class ServeBench(Result):
    """benchmarks/serve.py."""

    command: ClassVar[str] = "bench-serve"
    model: str
    clients: int
    seconds: float  # of each of the two loads
    new_tokens: int
    alone_per_s: float
    together_per_s: float
    ratio: float
    statuses: dict[str, int]  # how often each came with all clients at once
    memory_mib: float
    memory_grown_mib: float
    cpu_after_killed: float  # seconds of computing in the second after all clients were killed
    fuzzed: dict[str, int]  # how often each status came for a fuzzer's bodies
    fuzzed_wrongly: int  # answers that were neither right nor a refusal in one sentence
    ending_seconds: float  # from SIGTERM, with a request of every client under way
    ending_statuses: dict[str, int]

    def section(self, name: str) -> Section:
        header = ["clients", "answers a second", "ratio"]
        rows = [
            ["one after another", f"{self.alone_per_s:.1f}", "1"],
            [f"{self.clients} at once", f"{self.together_per_s:.1f}", f"{self.ratio:.1f}"],
        ]
        told, fuzzed, ended = map(often, (self.statuses, self.fuzzed, self.ending_statuses))
        note = (
            f"`python benchmarks/serve.py RUN`: completions of {self.new_tokens} tokens by "
            f"{self.model}, {self.seconds:g} s of each; answers with all at once: {told}; memory "
            f"{self.memory_mib:,.0f} MiB, {self.memory_grown_mib:+.0f} MiB meanwhile."
        )
        rest = (
            f"In the second after all clients were killed the server computed for "
            f"{self.cpu_after_killed:.2f} s. A fuzzer's bodies: {fuzzed}; {self.fuzzed_wrongly} "
            f"answers were no text and no refusal in one sentence. SIGTERM amid "
            f"{self.clients} requests: over after {self.ending_seconds:.1f} s, {ended}."
        )
        return Section("Serving", header, rows, [note, rest])


def often(statuses: dict[str, int]) -> str:
    """Say how often each status came."""
    return ", ".join(f"{count} with status {status}" for status, count in sorted(statuses.items()))
