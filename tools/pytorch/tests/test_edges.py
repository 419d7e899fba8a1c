"""Calls at the edge of what is allowed, and just beyond it."""

import types

import numpy
import pytest
import torch

import sattn
import sattn.transformers


def tensors(n, heads=2, width=8, queries=None):
    generator = torch.Generator().manual_seed(3)
    shapes = ((1, heads, queries or n, width), (1, heads, n, width), (1, heads, n, width))
    return [torch.randn(shape, generator=generator) for shape in shapes]


def band(q, k, v, left, right):
    """Two-way sliding window by a mask."""
    distance = torch.arange(k.shape[2])[None, :] - torch.arange(q.shape[2])[:, None]
    mask = (distance >= -left) & (distance <= right)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("length", [37, 50])
def test_order_length_below_the_next_power_of_two(length):
    """Plans are made for rounded sizes; an order may be shorter than these."""
    q, k, v = tensors(37)
    out = sattn.attention(q, k, v, mode="stochastic", window=100, order_length=length, backend="reference")
    full = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(out, full, atol=1e-5)


@pytest.mark.parametrize("which", ["key", "value"])
def test_another_device_is_refused(which):
    q, k, v = tensors(5)
    args = {"query": q, "key": k, "value": v}
    args[which] = args[which].to("meta")
    with pytest.raises(sattn.InvalidArgument, match=which):
        sattn.attention(args["query"], args["key"], args["value"], mode="full", backend="reference")


@pytest.mark.parametrize("bad", [[2**32 + 5], [2.7], [-1]])
def test_lengths_are_looked_at_before_they_are_converted(bad):
    q, k, v = tensors(9)
    with pytest.raises(sattn.InvalidArgument, match="lengths"):
        sattn.attention(q, k, v, mode="full", lengths=torch.tensor(bad), backend="reference")
    with pytest.raises(sattn.InvalidArgument, match="lengths"):
        sattn.attention(q.numpy(), k.numpy(), v.numpy(), mode="full", lengths=numpy.array(bad), backend="reference")


def test_two_way_sliding_layers_reach_as_far_as_transformers_say():
    q, k, v = tensors(40)
    layer = types.SimpleNamespace(is_causal=False)
    out, _ = sattn.transformers.forward(layer, q, k, v, None, sliding_window=5)
    assert torch.allclose(out.transpose(1, 2), band(q, k, v, 4, 4), atol=1e-5)


def test_cross_attention_is_refused():
    q, k, v = tensors(9, queries=3)
    layer = types.SimpleNamespace(is_causal=False)
    with pytest.raises(sattn.InvalidArgument, match="cross-attention"):
        sattn.transformers.forward(layer, q, k, v, None)
