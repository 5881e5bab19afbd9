"""The files that benchmarks/*.py write, as types: what each shows and how it was made."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import ClassVar

from adlm.results import Result
from adlm.viz.page import Section


@dataclass(frozen=True)
class StepRate:
    """One size of model at one length of rows."""

    size: str
    precision: str
    length: int
    tokens_per_s: float
    gflops: float
    matmul_peak_gflops: float
    share_of_peak: float
    peak_memory_mib: float
    isa: str = ""
    update_share_of_time: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrainStepBench(Result):
    """benchmarks/train_step.py."""

    command: ClassVar[str] = "bench-train-step"
    rows: list[StepRate]

    def section(self, name: str) -> Section:
        rows = [
            [
                r.size,
                f"{r.precision}{', AVX2' * (r.isa == 'avx2')}",
                str(r.length),
                f"{r.tokens_per_s:,.0f}",
                f"{r.gflops:,.0f} of {r.matmul_peak_gflops:,.0f}",
                f"{r.share_of_peak:.0%}",
                "left out" if r.update_share_of_time is None else f"{r.update_share_of_time:.0%}",
                f"{r.peak_memory_mib:,.0f}",
            ]
            for r in self.rows
        ]
        header = ["size", "precision", "L", "tokens/s", "GFLOP/s of the peak", "share"]
        sizes = " ".join(dict.fromkeys(r.size for r in self.rows))
        note = (
            f"`python benchmarks/train_step.py --sizes {sizes} --compile`: one MDLM step, "
            "the optimiser's update included where its share of the time stands, against "
            "the matrix-product peak of the same run; rows of L and 4 L, as many tokens; "
            "AVX2: without AVX-512 and bf16 units. "
            "The rest of the time goes to what is no large matrix product: norms, attention, the "
            "loss, and at nano, whose matrices are small, the update."
        )
        return Section("Training step", [*header, "the update's time", "peak MiB"], rows, [note])


@dataclass(frozen=True)
class AgainstLiteral:
    """A folded model beside the literal one."""

    as_fast: float
    by_flops: float
    memory: float


@dataclass(frozen=True)
class Phase:
    """Training or inference, by model."""

    seconds: dict[str, list[float]]
    peak_memory_mib: dict[str, float]
    memory_rows: int
    flops: dict[str, int]
    against_literal: dict[str, AgainstLiteral]
    time_of_plain: float


@dataclass(frozen=True, kw_only=True)
class AnchoredStepBench(Result):
    """benchmarks/anchored_step.py."""

    command: ClassVar[str] = "bench-anchored-step"
    rows: int
    phases: dict[str, Phase]

    def section(self, name: str) -> Section:
        rows, notes = [], []
        for phase, found in self.phases.items():
            for model, times in found.seconds.items():
                time = f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})"
                work, memory = found.flops[model] / 1e12, found.peak_memory_mib[model]
                rows.append([phase, model, time, f"{work:.2f}", f"{memory:,.0f}"])
            said = [
                f"{model} {pair.as_fast:.2f}x as fast as literal ({pair.by_flops:.2f}x by FLOPs) "
                f"with {pair.memory:.2f} of its memory"
                for model, pair in found.against_literal.items()
            ]
            plain = f"{found.time_of_plain:.2f}x the time of the plain model"
            notes.append(f"{phase.capitalize()}: {'; '.join([*said, plain])}.")
        each = [f"{f.memory_rows} for the memory of {p}" for p, f in self.phases.items()]
        how = f"{self.rows} rows for the seconds, {', '.join(each)}; {self.precision}."
        note = (
            "`python benchmarks/anchored_step.py`: V 50258, d 768, 12 + 6 blocks, L 128; they take "
            "turns, ratios are medians over rounds. Inference: folded and plain have the "
            "denoiser's logits or log p at the masked half; literal has the anchor's and the "
            "denoiser's logits at every position, and log p by both SUBS rules, as the published "
            "forward does. Training: seconds of forward and backward; peak memory of a step with "
            "AdamW's update and moments."
        )
        header = ["phase", "model", "seconds", "TFLOP", "peak MiB"]
        return Section("Anchored step", header, rows, [how, *notes, note])


@dataclass(frozen=True)
class ObjectiveStep:
    """A training step of one objective."""

    seconds: list[float]
    times_mdlm: float
    peak_memory_mib: list[float]  # with some rows, with twice as many
    bytes_a_token: float
    of_a_row_of_logits: float


@dataclass(frozen=True, kw_only=True)
class BaselinesStepBench(Result):
    """benchmarks/baselines_step.py."""

    command: ClassVar[str] = "bench-baselines-step"
    size: str
    rows: int
    length: int
    vocabulary: int
    wanted_of_bd3lm: float
    objectives: dict[str, ObjectiveStep]

    def section(self, name: str) -> Section:
        rows, base = [], self.objectives["mdlm"].bytes_a_token
        for objective, o in self.objectives.items():
            low, high = min(o.seconds), max(o.seconds)
            time = f"{statistics.median(o.seconds):.1f} ({low:.1f} to {high:.1f})"
            memory = " / ".join(f"{mib:,.0f}" for mib in o.peak_memory_mib)
            beyond = (o.bytes_a_token - base) / (4 * self.vocabulary)
            rows.append([objective, time, f"{o.times_mdlm:.2f}", memory, f"{beyond:+.2f}"])
        note = (
            f"`python benchmarks/baselines_step.py`: size {self.size}, V {self.vocabulary}, "
            f"L {self.length}, {self.rows} rows, {self.precision}; forward and backward of the "
            "loss. They take turns, ratios are medians over rounds; memory in processes of their "
            "own, with the rows and with twice as many. Block diffusion shows a row twice: at most "
            f"{self.wanted_of_bd3lm} times MDLM's step is wanted of it. The last column is what a "
            "further token takes beyond MDLM's, whose trunk they share, in rows of logits (4 V "
            "bytes): logits of all positions would be +1 or more. Block diffusion and D3PM pass a "
            "row twice, which is a second trunk's activations."
        )
        header = ["objective", "seconds", "times MDLM's", "peak MiB", "rows of logits beyond"]
        return Section("Baselines' training step", header, rows, [note])


@dataclass(frozen=True)
class SamplingCase:
    """One sampler."""

    seconds: float
    tokens_per_s: float
    nfe: float
    ms_per_pass: float
    note: str
    positions: float | None = None  # of all passes of a row, where something is kept


@dataclass(frozen=True, kw_only=True)
class SamplingBench(Result):
    """benchmarks/sampling.py."""

    command: ClassVar[str] = "bench-sampling"
    cases: dict[str, SamplingCase]
    times_as_fast_as_literal: dict[str, float]
    tokens_per_s_ratios: dict[str, float] = field(default_factory=dict)

    def section(self, name: str) -> Section:
        rows = [
            [
                sampler,
                f"{c.seconds:.1f}",
                f"{c.tokens_per_s:,.1f}",
                f"{c.nfe:.1f}",
                f"{c.ms_per_pass:,.0f}",
                c.note,
            ]
            for sampler, c in self.cases.items()
        ]
        ratios = self.times_as_fast_as_literal.items()
        said = ", ".join(f"{sampler} {ratio:.1f}x" for sampler, ratio in ratios)
        note = (
            "`python benchmarks/sampling.py`: 12 blocks, d 768, V 50258, L 256, T 256, batch 8, "
            "against the published loop written plainly."
        )
        header = ["sampler", "seconds", "tokens/s", "passes a row", "ms a pass", ""]
        notes = [f"As fast as literal: {said}.", note]
        against = [f"{pair} {ratio:.2f}" for pair, ratio in self.tokens_per_s_ratios.items()]
        if against:
            notes.insert(1, f"Tokens a second, one over the other: {'; '.join(against)}.")
        return Section("Sampling", header, rows, notes)


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
    return ", ".join(f"{count} of {status}" for status, count in sorted(statuses.items()))


@dataclass(frozen=True)
class ShardCase:
    """So many processes, of which each has a share of something; in bytes."""

    processes: int
    shard: str
    difference: float  # of losses from those of one process, the largest, as a share
    norm_difference: float  # of gradients' norms
    valid_nll: float
    weights: int
    gradients: int
    moments: int
    ema: int
    at_rest: int
    peak: int


@dataclass(frozen=True, kw_only=True)
class ShardBench(Result):
    """benchmarks/shard.py."""

    command: ClassVar[str] = "bench-shard"
    steps: int
    cases: list[ShardCase]
    resumed: dict[str, float]
    killed: float

    def section(self, name: str) -> Section:
        whole = {c.processes: c for c in self.cases if c.shard == "none"}
        rows = [
            [
                f"{c.processes}, {c.shard}",
                f"{c.difference:.1e}",
                f"{c.norm_difference:.1e}",
                f"{c.valid_nll:.6f}",
                *(f"{part / 2**20:.1f}" for part in (c.weights, c.gradients, c.moments, c.ema)),
                f"{c.at_rest / whole[c.processes].at_rest:.2f}",
                f"{c.peak / whole[c.processes].peak:.2f}",
            ]
            for c in self.cases
        ]
        said = ", ".join(f"{how}: {share:.1e}" for how, share in self.resumed.items())
        notes = [
            f"Saved on 4 processes and resumed on fewer, the largest difference: {said}. One of 4 "
            f"killed by SIGKILL and all started again, against undisturbed: {self.killed:.1e}.",
            "`python benchmarks/shard.py`: ADLM, AdamW, fp32, gloo. Differences are over "
            f"{self.steps} steps at size pico; MiB that a process holds before the update, at size "
            "tiny; `held` are shares of what a process has where nothing is sharded, `at most` "
            "when a block is passed, with what is gathered then (DDP's buckets are not counted).",
        ]
        header = ["processes, shard", "losses differ by", "norms by", "validation nats"]
        header += ["weights", "gradients", "moments", "averaged", "held", "held at most"]
        return Section("Sharded training", header, rows, notes)


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


BENCHES: tuple[type[Result], ...] = (
    TrainStepBench,
    AnchoredStepBench,
    BaselinesStepBench,
    SamplingBench,
    ServeBench,
    ShardBench,
    DataBench,
)
