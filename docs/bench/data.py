"""Reading, tokenising and loading of corpora."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.results import Result
from adlm.viz.page import Section


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """MB of text a second of CPU time, in one process."""

    first_pass_mb_per_s: float
    second_pass_mb_per_s: float
    tokenizer_alone_mb_per_s: float


@dataclass(frozen=True, kw_only=True)
class Peak:
    """Largest resident sets."""

    reader_mib: float
    worker_mib: list[float]


@dataclass(frozen=True, kw_only=True)
class Tokenised:
    """One tokenising, to its end or killed."""

    seconds: float
    peak: Peak
    tokens_per_s: float = 0.0
    bytes_per_s: float = 0.0
    bytes_per_worker_cpu_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Loading:
    """Making batches."""

    tokens_per_s: float
    waiting_ms_a_step_of_300_ms: float


@dataclass(frozen=True, kw_only=True)
class DataBench(Result):
    """benchmarks/data.py."""

    command: ClassVar[str] = "bench-data"
    beside: str
    note: str = ""
    corpus_bytes: int
    tokenizer: str
    workers: int
    encoding_one_process: Encoding
    undisturbed: Tokenised
    killed_twice: list[Tokenised]
    same_bytes: bool
    loader: Loading

    def section(self, name: str) -> Section:
        every = [self.undisturbed, *self.killed_twice]
        most = max(max(t.peak.reader_mib, *t.peak.worker_mib) for t in every)
        one, whole, load = self.encoding_one_process, self.undisturbed, self.loader
        rows = [
            ["tokens/s, by the clock", f"{whole.tokens_per_s:,.0f}"],
            ["MB/s of text, by the clock", f"{whole.bytes_per_s / 1e6:.2f}"],
            ["MB a CPU second of a worker", f"{whole.bytes_per_worker_cpu_s / 1e6:.1f}"],
            ["of text seen first, one process", f"{one.first_pass_mb_per_s:.1f}"],
            ["of the tokenizer without known words", f"{one.tokenizer_alone_mb_per_s:.1f}"],
            ["largest memory of a process, MiB", f"{most:,.0f}"],
            ["the same bytes after two kills", "yes" if self.same_bytes else "NO"],
            ["loader, tokens/s", f"{load.tokens_per_s:,.0f}"],
            ["wait for a batch made ahead, ms", f"{load.waiting_ms_a_step_of_300_ms:.2f}"],
        ]
        said = (
            f"`python benchmarks/data.py`: {self.corpus_bytes / 1e9:.2g} GB of text, "
            f"{self.tokenizer}, {self.workers} processes. Beside it ran {self.beside}. {self.note}"
        )
        return Section("Data", ["", "measured"], rows, [said])
