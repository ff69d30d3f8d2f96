"""What is measured, and what each figure should reach beside the peer's."""
from dataclasses import dataclass
from fnmatch import fnmatchcase

CONCURRENCIES = (1, 4, 8, 16)
ROW_COUNTS = (1, 4, 8, 16, 32)


@dataclass(frozen=True)
class Case:
    """One figure: a prompt to compute (rows = 0), or `rows` rows that decode `gen` tokens each
    behind `depth` tokens. A batched case is measured by llama-batched-bench, others by
    llama-bench."""
    model: str
    name: str
    prompt: int = 0
    rows: int = 0
    gen: int = 0
    depth: int = 0
    batched: bool = False

    @property
    def key(self):
        return f"{self.model}/{self.name}"

    def work(self, costs):
        """What one token needs at least, of a model's models.costs: bytes to read in a decoding
        step that its rows share, and int8 operations (an add counts, so does a multiply)."""
        if not self.rows:
            return {"operations": 2 * costs["layer_weights"]}
        context = self.depth + self.gen / 2
        return {"bytes": costs["weight_bytes"] / self.rows + costs["kv_bytes"] * context,
                "operations": 2 * (costs["layer_weights"] + costs["head_weights"]),
                "buffer": costs["weight_bytes"]}


@dataclass(frozen=True)
class ServerCase:
    """Server beside server: `concurrency` clients that stream, each prompt new."""
    model: str
    concurrency: int
    prompt: int = 128
    gen: int = 64

    @property
    def name(self):
        return f"server-{self.concurrency}"

    @property
    def key(self):
        return f"{self.model}/{self.name}"

    @property
    def requests(self):
        """In one run: at least two for each client."""
        return max(2 * self.concurrency, 4)


@dataclass(frozen=True)
class LimitsCase:
    """What the machine can do at best; see machine.py."""
    name: str = "limits"
    key: str = "machine/limits"


@dataclass(frozen=True)
class SingleCase:
    """A measure of its own: start-up, or what the server adds to the engine."""
    model: str
    name: str

    @property
    def key(self):
        return f"{self.model}/{self.name}"


def _engine_cases(model):
    return ([Case(model, f"prefill-{n}", prompt=n) for n in (512, 2048)]
            + [Case(model, f"decode-depth-{n}", rows=1, gen=128, depth=n) for n in (0, 2048)]
            + [Case(model, f"rows-{n}", rows=n, gen=64, depth=64, batched=True)
               for n in ROW_COUNTS])


ENGINE_CASES = [*_engine_cases("default"),
                *[case for case in _engine_cases("mlx") if case.name.startswith("decode-")],
                *_engine_cases("1b")]
SERVER_CASES = [ServerCase("default", n) for n in CONCURRENCIES]
START = SingleCase("default", "start")
OVERHEAD = SingleCase("default", "server-adds")
ALL_CASES = [LimitsCase(), *ENGINE_CASES, START, *SERVER_CASES, OVERHEAD]
QUICK_CASES = [LimitsCase(), Case("default", "prefill-64", prompt=64),
               Case("default", "decode-depth-16", rows=1, gen=8, depth=16),
               Case("default", "rows-2", rows=2, gen=8, depth=16, batched=True),
               START, ServerCase("default", 2, prompt=16, gen=8), OVERHEAD]


def chosen(cases, patterns):
    """The cases that one of the patterns names: "default/rows-*", "prefill-*", "mlx/*"."""
    if not patterns:
        return list(cases)
    return [case for case in cases if any(fnmatchcase(case.key, pattern)
                                          or fnmatchcase(case.name, pattern)
                                          for pattern in patterns)]


# Ratios to the peer that the project set itself: (precision, machine with AMX, with VNNI only).
# "lower" metrics must be at most the figure, others at least.
_TARGETS = {
    ("decode-depth-0", "fast"): (1.1, 1.1), ("decode-depth-0", "high"): (1.0, 1.0),
    ("prefill-512", "fast"): (4, 1.5), ("prefill-512", "high"): (3, 1.0),
    ("prefill-2048", "fast"): (4, 1.5), ("prefill-2048", "high"): (3, 1.0),
    ("rows-16", "fast"): (5, 3), ("rows-16", "high"): (3.5, 2)}
_SERVER_TARGETS = {1: (2, 2), 8: (4, 2.5), 16: (4, 2.5)}


# Shares that no peer is needed for.
BANDWIDTH_SHARE_MIN, ENGINE_SHARE_MAX, SERVER_ADDS_MAX = 0.7, 0.05, 0.03


def target(row, amx):
    """The ratio that a row of results should reach, or None."""
    column = 0 if amx else 1
    name, metric = row["case"], row["metric"]
    if row.get("isa"):
        return 1.0 if metric == "speed" else None
    if row["model"] == "mlx":
        return 1.3 if name == "decode-depth-0" and row["precision"] == "high" else None
    if name.startswith("server-") and row["precision"] == "high":
        if metric in ("ttft_median", "ttft_p95"):
            return 0.5
        pair = _SERVER_TARGETS.get(row.get("concurrency"))
        return pair[column] if pair and metric == "speed" else None
    pair = _TARGETS.get((name, row["precision"]))
    return pair[column] if pair and metric == "speed" else None
