"""A decoder-only transformer (RMSNorm, rotary positions, SwiGLU, tied embeddings) whose layers attend through sattn."""

import math

import torch
from torch import nn
from torch.nn import functional

import sattn


def rotary_table(positions, head_dim, base):
    """(cos, sin), both [positions, head_dim / 2], for ORIGINAL positions: the random order of SA changes who is seen, never where it is."""
    rates = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), rates)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class SelfAttention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        model, attention = config.model, config.attention
        self.heads, self.key_value_heads, self.head_dim = model.heads, model.key_value_heads, model.head_dim
        self.layer, self.attention = layer, attention
        self.mode = attention.modes()[layer % len(attention.modes())]
        self.query = nn.Linear(model.width, self.heads * self.head_dim, bias=False)
        self.key = nn.Linear(model.width, self.key_value_heads * self.head_dim, bias=False)
        self.value = nn.Linear(model.width, self.key_value_heads * self.head_dim, bias=False)
        self.out = nn.Linear(self.heads * self.head_dim, model.width, bias=False)
        if self.mode == "gated":
            # Two projections of their own, each with its own sigmoid: the branches do not compete for one unit of weight, as under a softmax.
            outputs = self.heads * (self.head_dim if attention.gate == "element" else 1)
            self.gate_swa, self.gate_sa = nn.Linear(model.width, outputs), nn.Linear(model.width, outputs)

    def _split(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)

    def _arguments(self, x, step):
        """What sattn.attention needs for the mode of this layer. One permutation per layer; a fresh one per step, or that of step 0 for ever."""
        attention = self.attention
        draw = {"seed": attention.seed, "layer": self.layer, "step": step if attention.permutation == "fresh" else 0}
        if self.mode == "full":
            return {"mode": "full"}
        if self.mode == "swa":
            return {"mode": "sliding_window", "window": attention.window}
        if self.mode == "sa":
            return {"mode": "stochastic", "window": attention.window, **draw}
        window_swa, window_sa = attention.windows()
        gates = {"gate_sa": self._split(self.gate_sa(x), self.heads), "gate_swa": self._split(self.gate_swa(x), self.heads)}
        return {"mode": "gated", "window_swa": window_swa, "window_sa": window_sa, **gates, **draw}

    def forward(self, x, table, step):
        query = rotate(self._split(self.query(x), self.heads), *table)
        key = rotate(self._split(self.key(x), self.key_value_heads), *table)
        value = self._split(self.value(x), self.key_value_heads)
        mixed = sattn.attention(query, key, value, causal=True, layout="bhnd", **self._arguments(x, step))
        return self.out(mixed.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class Layer(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        width, hidden = config.model.width, config.model.hidden
        self.attention_norm, self.hidden_norm = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.attention = SelfAttention(config, layer)
        self.up, self.gate, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x, table, step):
        x = x + self.attention(self.attention_norm(x), table, step)
        y = self.hidden_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        model = config.model
        self.embedding = nn.Embedding(model.vocabulary, model.width)
        self.layers = nn.ModuleList(Layer(config, layer) for layer in range(model.layers))
        self.norm = nn.RMSNorm(model.width, eps=1e-6)
        cos, sin = rotary_table(model.context, model.head_dim, model.rope_base)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self._initialise(config)

    def _initialise(self, config):
        """Weights from the training seed alone, in an order that does not depend on the mode: models that differ in mode start from the same weights."""
        generator = torch.Generator().manual_seed(config.train.seed)
        usual = 0.64 / math.sqrt(config.model.width)
        scaled = usual / math.sqrt(2 * config.model.layers)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if "gate_s" in name:
                    parameter.zero_()
                elif parameter.dim() > 1:
                    deviation = scaled if name.endswith(("out.weight", "down.weight")) else usual
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation)

    def hidden_states(self, tokens, step):
        length = tokens.shape[1]
        table = self.cos[:length], self.sin[:length]
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, table, step)
        return self.norm(x)

    def loss(self, tokens, targets, step):
        """(sum of the losses, hits, count) over the targets that are not negative. Only those rows meet the vocabulary."""
        chosen = targets.flatten() >= 0
        rows = self.hidden_states(tokens, step).flatten(0, 1)[chosen]
        targets = targets.flatten()[chosen]
        logits = functional.linear(rows, self.embedding.weight.to(rows.dtype)).float()
        return functional.cross_entropy(logits, targets, reduction="sum"), (logits.argmax(-1) == targets).sum(), targets.numel()


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())
