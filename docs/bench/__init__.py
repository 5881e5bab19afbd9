"""The files that benchmarks/*.py write, as types: what each shows and how it was made."""

from adlm.results import Result
from bench.anchored_step import AnchoredStepBench
from bench.baselines_step import BaselinesStepBench
from bench.data import DataBench
from bench.sampling import SamplingBench
from bench.serve import ServeBench
from bench.shard import ShardBench
from bench.train_step import TrainStepBench

BENCHES: tuple[type[Result], ...] = (
    TrainStepBench,
    AnchoredStepBench,
    BaselinesStepBench,
    SamplingBench,
    ServeBench,
    ShardBench,
    DataBench,
)
