"""A text file as windows of tokens."""

import hashlib
import pathlib


def read(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    if not text.strip():
        raise ValueError(f"text: {path} is empty")
    return text


def fingerprint(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def windows(ids, length, count):
    """`count` windows of `length` + 1 tokens, evenly spaced, the first at the start: `length` inputs, and every input has its target.

    Evenly spaced rather than drawn: every mode and every setting sees the same windows, so that differences between modes are differences of pairs.
    """
    if count < 1:
        raise ValueError(f"contexts: {count} is not at least 1")
    last = len(ids) - (length + 1)
    if last < 0:
        raise ValueError(f"n: the text has {len(ids)} tokens, {length} inputs and the last target need {length + 1}")
    step = last // (count - 1) if count > 1 else 0
    if count > 1 and step < 1:
        raise ValueError(f"contexts: the text has no {count} different windows of {length + 1} tokens")
    return [ids[i * step : i * step + length + 1] for i in range(count)]
