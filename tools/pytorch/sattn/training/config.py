"""The configuration file (TOML) of a training run, checked when it is read."""

import dataclasses
import tomllib

MODES = ("full", "swa", "sa", "gated")


@dataclasses.dataclass
class Model:
    layers: int
    width: int
    heads: int
    head_dim: int
    hidden: int
    vocabulary: int
    context: int
    key_value_heads: int = 0
    rope_base: float = 10000.0

    def __post_init__(self):
        self.key_value_heads = self.key_value_heads or self.heads
        if self.heads % self.key_value_heads:
            raise ValueError(f"model.heads: {self.heads} is not a multiple of key_value_heads = {self.key_value_heads}")
        if self.head_dim % 2:
            raise ValueError(f"model.head_dim: {self.head_dim} is odd, rotary positions need pairs")


@dataclasses.dataclass
class Attention:
    """window is the budget of keys per query. SWA and SA spend it all; GATED spends half on each branch, unless `whole_window_each`."""

    mode: str | list
    window: int = 0
    permutation: str = "fresh"
    gate: str = "head"
    whole_window_each: bool = False
    seed: int = 0

    def __post_init__(self):
        for mode in self.modes():
            if mode not in MODES:
                raise ValueError(f"attention.mode: {mode!r} is none of {', '.join(MODES)}")
            if mode != "full" and self.window < (2 if mode == "gated" else 1):
                raise ValueError(f"attention.window: {self.window} is too small for mode {mode}")
        if self.permutation not in ("fresh", "fixed"):
            raise ValueError(f"attention.permutation: {self.permutation!r} is neither fresh (one per step) nor fixed")
        if self.gate not in ("head", "element"):
            raise ValueError(f"attention.gate: {self.gate!r} is neither head nor element")

    def modes(self):
        """The modes of the layers; a list repeats from the first layer on."""
        return [self.mode] if isinstance(self.mode, str) else self.mode

    def windows(self):
        """(window of SWA, window of SA) of a gated layer."""
        if self.whole_window_each:
            return self.window, self.window
        return self.window - self.window // 2, self.window // 2


@dataclasses.dataclass
class Data:
    kind: str
    path: str = ""
    validation: float = 0.1
    facts: int = 4
    values: int = 8
    noise: int = 32
    questions: int = 16
    distance: int = 0

    def __post_init__(self):
        if self.kind not in ("bytes", "tokens", "recall", "random"):
            raise ValueError(f"data.kind: {self.kind!r} is none of bytes, tokens, recall, random")
        if not 0 < self.validation < 1:
            raise ValueError(f"data.validation: {self.validation} is not between 0 and 1")


@dataclasses.dataclass
class Train:
    steps: int
    batch: int
    learning_rate: float
    accumulate: int = 1
    warmup: int = 0
    final_rate: float = 0.1
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    clip: float = 1.0
    seed: int = 0
    dtype: str = "float32"
    evaluate_every: int = 100
    evaluate_batches: int = 8
    checkpoint_every: int = 100

    def __post_init__(self):
        if self.dtype not in ("float32", "bfloat16"):
            raise ValueError(f"train.dtype: {self.dtype!r} is neither float32 nor bfloat16")
        for name in ("steps", "batch", "accumulate", "evaluate_every", "evaluate_batches", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"train.{name}: {getattr(self, name)} is not at least 1")


@dataclasses.dataclass
class Config:
    model: Model
    attention: Attention
    data: Data
    train: Train


_SECTIONS = {"model": Model, "attention": Attention, "data": Data, "train": Train}


def _value(word):
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


def from_tables(tables):
    unknown = set(tables) - set(_SECTIONS)
    if unknown:
        raise ValueError(f"configuration: there is no section {sorted(unknown)[0]!r}")
    parts = {}
    for section, kind in _SECTIONS.items():
        table = tables.get(section, {})
        fields = {field.name: field for field in dataclasses.fields(kind)}
        for name in table:
            if name not in fields:
                raise ValueError(f"{section}.{name}: there is no such setting; there are {', '.join(fields)}")
        for name, field in fields.items():
            if field.default is dataclasses.MISSING and name not in table:
                raise ValueError(f"{section}.{name}: missing")
        parts[section] = kind(**table)
    return Config(**parts)


def read(path, changes=()):
    """The configuration of a file; changes are strings such as train.steps=5, and take precedence."""
    with open(path, "rb") as file:
        tables = tomllib.load(file)
    for change in changes:
        name, sign, word = change.partition("=")
        section, dot, field = name.partition(".")
        if not sign or not dot:
            raise ValueError(f"--set {change}: not of the form section.name=value")
        tables.setdefault(section, {})[field] = _value(word)
    return from_tables(tables)


def to_tables(config):
    return dataclasses.asdict(config)
