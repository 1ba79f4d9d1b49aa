"""Data sets by the name that the command line takes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.datasets import intents, tools
from benchmarks.datasets.base import Dataset

Loader = Callable[[Path, int], Dataset]


DATASETS: Mapping[str, Loader] = {
    "clinc150-5": lambda data, seed: intents.clinc150(data, examples=5, seed=seed),
    "clinc150-10": lambda data, seed: intents.clinc150(data, examples=10, seed=seed),
    "clinc150-1000-flows": lambda data, seed: intents.clinc150_pieces(data, flows=1_000, examples=5, seed=seed),
    "banking77-5": lambda data, seed: intents.banking77(data, examples=5, seed=seed),
    "banking77-10": lambda data, seed: intents.banking77(data, examples=10, seed=seed),
    "clinc150-1-to-10": lambda data, seed: intents.uneven(intents.clinc150(data, examples=10, seed=seed)),
    "banking77-1-to-10": lambda data, seed: intents.uneven(intents.banking77(data, examples=10, seed=seed)),
    "nlupp-banking-5": lambda data, seed: intents.nlupp(data, domain="banking", examples=5, seed=seed),
    "nlupp-hotels-5": lambda data, seed: intents.nlupp(data, domain="hotels", examples=5, seed=seed),
    "metatool-single": lambda data, seed: tools.metatool_single(data, seed=seed),
    "metatool-single-all": lambda data, seed: tools.metatool_single(data, seed=seed, limit=None),
    "metatool-multi": lambda data, seed: tools.metatool_multi(data, seed=seed),
    "metatool-single-3": lambda data, seed: tools.metatool_single(data, seed=seed, examples=3),
    "metatool-single-6": lambda data, seed: tools.metatool_single(data, seed=seed, examples=6),
    "metatool-multi-3": lambda data, seed: tools.metatool_multi(data, seed=seed, examples=3),
    "metatool-multi-6": lambda data, seed: tools.metatool_multi(data, seed=seed, examples=6),
    "bfcl-live": lambda data, seed: tools.bfcl_live(data, seed=seed),
    "sealtools": lambda data, seed: tools.sealtools(data, seed=seed),
    "sealtools-dev": lambda data, seed: tools.sealtools(data, seed=seed, split="dev"),
    "livemcpbench": lambda data, seed: tools.livemcpbench(data, seed=seed),
    "livemcpbench-alone": lambda data, seed: tools.livemcpbench(data, seed=seed, has_owner=False),
    "livemcpbench-steps": lambda data, seed: tools.livemcpbench(data, seed=seed, by_step=True),
    "livemcpbench-steps-alone": lambda data, seed: tools.livemcpbench(data, seed=seed, has_owner=False, by_step=True),
}
"""Name to a loader that takes the data folder and a seed."""

RECALL: tuple[str, ...] = (
    "clinc150-5",
    "clinc150-10",
    "banking77-5",
    "banking77-10",
    "clinc150-1-to-10",
    "banking77-1-to-10",
    "metatool-single",
    "metatool-single-3",
    "metatool-single-6",
    "metatool-multi",
    "metatool-multi-3",
    "metatool-multi-6",
    "bfcl-live",
)
"""What the recall benchmark measures unless it is told otherwise."""


def load(name: str, data: Path, seed: int) -> Dataset:
    """Read one data set; `KeyError` where none has this name."""
    return DATASETS[name](data, seed)


def each(names: Iterable[str], data: Path, seeds: Sequence[int]) -> Iterator[Dataset]:
    """These data sets, each with every seed, read when its turn comes; `KeyError` where none has a name."""
    for name in names:
        for seed in seeds:
            yield load(name, data, seed)
