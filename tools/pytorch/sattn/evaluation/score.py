"""Negative log-likelihood and top-1 hits of the last tokens of each window.

Two protocols. `windowed`: the mode under test reads everything, the scored tokens included. `full`: the mode under test reads the prompt into the
key/value cache, then the scored tokens attend to the whole cache, as in the paper, where decoding is full attention.
"""

import inspect

import torch


def _cache(model):
    """A fresh key/value cache as the keyword that this version of Transformers knows."""
    from transformers import DynamicCache

    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    return {name: DynamicCache(config=model.config), "use_cache": True}


def tail_logits(model, tokens, tail, protocol, switch):
    """Logits [windows, tail, vocabulary] of the last `tail` inputs. switch("mode") and switch("full") set the attention."""
    length = tokens.shape[1]
    switch("mode")
    if protocol == "windowed":
        return model(tokens, use_cache=False, logits_to_keep=tail).logits
    if tail >= length:
        raise ValueError(f"tail: {tail} scored tokens leave no prompt to read in {length} tokens")
    cache = _cache(model)
    model(tokens[:, : length - tail], logits_to_keep=1, **cache)
    switch("full")
    return model(tokens[:, length - tail :], **cache).logits


@torch.no_grad()
def score(model, tokens, tail, protocol, switch):
    """(nll, hits), both float64 [windows, tail], of windows `tokens` [windows, n + 1]: n inputs and the targets shifted by one."""
    inputs, targets = tokens[:, :-1], tokens[:, -tail:]
    logits = tail_logits(model, inputs, tail, protocol, switch)
    nll = torch.empty(targets.shape, dtype=torch.float64)
    hits = torch.empty(targets.shape, dtype=torch.float64)
    for row in range(targets.shape[0]):
        # A row at a time: the float32 copy of all logits of a large vocabulary would be the largest array of the program.
        scores = logits[row].float()
        nll[row] = torch.nn.functional.cross_entropy(scores, targets[row], reduction="none").double().cpu()
        hits[row] = (scores.argmax(-1) == targets[row]).double().cpu()
    return nll, hits
