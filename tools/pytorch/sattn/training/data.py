"""Where training batches come from. A batch is a pure function of (seed, step, split): nothing to store in a checkpoint, and resuming repeats it.

    bytes    a text file as bytes, vocabulary 256; the last part of the file is for validation
    tokens   a .npy file of token numbers (see `python -m sattn.training.tokens`), mapped, not read
    recall   a made-up task that only long sight can solve, see Recall
    random   uniform tokens, to time a step
"""

import numpy
import torch

_SPLITS = {"train": 0, "validation": 1}


def _generator(seed, step, split):
    # Philox of NumPy takes the whole coordinate as its key, so that neighbouring seeds and steps share nothing.
    return numpy.random.Generator(numpy.random.Philox(key=[(seed << 1) | _SPLITS[split], step]))


class _Stream:
    """Random windows of a long row of tokens."""

    def __init__(self, tokens, validation, context, seed, vocabulary):
        border = int(len(tokens) * (1 - validation))
        self.parts = {"train": tokens[:border], "validation": tokens[border:]}
        self.context, self.seed, self.vocabulary = context, seed, vocabulary
        for split, part in self.parts.items():
            if len(part) <= context:
                raise ValueError(f"data.path: {len(part)} tokens for {split} are not more than the context, {context}")

    def batch(self, split, step, count):
        part = self.parts[split]
        # Validation windows do not depend on the seed: all seeds are measured on the same text.
        starts = _generator(self.seed if split == "train" else 0, step, split).integers(0, len(part) - self.context, count)
        rows = numpy.stack([part[start : start + self.context + 1] for start in starts]).astype(numpy.int64)
        if rows.max() >= self.vocabulary:
            raise ValueError(f"model.vocabulary: {self.vocabulary} is too small for token {rows.max()}")
        rows = torch.from_numpy(rows)
        return rows[:, :-1], rows[:, 1:]


class Recall:
    """Facts at the start, questions at the end, noise between, and far more of it than a sliding window spans.

    A fact token names a key and its value, a question token names a key, and the label at a question is the value. Labels are never inputs, so
    an answer cannot be copied from an earlier question. Facts stand at random places of the first eighth, questions at random places of the
    last quarter; `distance` tokens at least (half of the context if 0) lie between a question and every fact.

    Tokens: values 0..V-1, questions V..V+F-1, facts V+F..V+F+F*V-1, then noise.
    """

    def __init__(self, data, context, seed, vocabulary):
        self.data, self.context, self.seed = data, context, seed
        self.fact_end, self.question_start = context // 8, context - context // 4
        distance = data.distance or context // 2
        if self.question_start - self.fact_end < distance:
            raise ValueError(f"data.distance: {distance} does not fit into a context of {context}")
        if data.facts > self.fact_end or data.questions > context - self.question_start:
            raise ValueError(f"data.facts, data.questions: {data.facts} and {data.questions} do not fit into a context of {context}")
        self.first_fact = data.values + data.facts
        self.first_noise = self.first_fact + data.facts * data.values
        if self.first_noise + data.noise > vocabulary:
            raise ValueError(f"model.vocabulary: {vocabulary} is less than the {self.first_noise + data.noise} tokens of the task")

    def batch(self, split, step, count):
        data, draw = self.data, _generator(self.seed if split == "train" else 0, step, split)
        tokens = draw.integers(self.first_noise, self.first_noise + data.noise, (count, self.context))
        targets = numpy.full((count, self.context), -1)
        for row in range(count):
            values = draw.integers(0, data.values, data.facts)
            places = draw.choice(self.fact_end, data.facts, replace=False)
            tokens[row, places] = self.first_fact + numpy.arange(data.facts) * data.values + values
            asked = draw.integers(0, data.facts, data.questions)
            places = self.question_start + draw.choice(self.context - self.question_start, data.questions, replace=False)
            tokens[row, places] = data.values + asked
            targets[row, places] = values[asked]
        return torch.from_numpy(tokens), torch.from_numpy(targets)


class _Uniform:
    def __init__(self, context, seed, vocabulary):
        self.context, self.seed, self.vocabulary = context, seed, vocabulary

    def batch(self, split, step, count):
        rows = torch.from_numpy(_generator(self.seed, step, split).integers(0, self.vocabulary, (count, self.context + 1)))
        return rows[:, :-1], rows[:, 1:]


def make(config):
    data, context, seed, vocabulary = config.data, config.model.context, config.train.seed, config.model.vocabulary
    if data.kind == "recall":
        return Recall(data, context, seed, vocabulary)
    if data.kind == "random":
        return _Uniform(context, seed, vocabulary)
    tokens = numpy.fromfile(data.path, dtype=numpy.uint8) if data.kind == "bytes" else numpy.load(data.path, mmap_mode="r")
    if tokens.ndim != 1:
        raise ValueError(f"data.path: {data.path} has {tokens.ndim} dimensions, not one row of tokens")
    return _Stream(tokens, data.validation, context, seed, vocabulary)
