"""A block of Llama whose norms, rotations, attention, gates, linear layers and loss are generated, or torch's own.

The kernels are ops of torch, `llama::rms_norm` and others, which their modules in `kernels/` make known; the specs that
they are generated from are in `specs/`. A model names ops, and imports modules for nothing else.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.nn import functional

KERNELS = ("rms_norm", "rope", "attention", "swiglu", "linear", "cross_entropy")
EPS = 1e-5


def load_kernels(folder: Path = Path(__file__).parent / "kernels") -> dict[str, ModuleType]:
    """Imports the modules, which makes their ops known to torch; each imports that of its gradient by itself."""
    for name in KERNELS:
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
            assert spec is not None and spec.loader is not None
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
    return {name: module for name, module in sys.modules.items() if str(folder) in str(getattr(module, "__file__", ""))}


def rms_norm(x: Tensor, weight: Tensor, generated: bool) -> Tensor:
    """Rows of x [T, N] divided by their root mean square, times the weight [N]."""
    if generated:
        return torch.ops.llama.rms_norm(x, weight, EPS)[0]
    return functional.rms_norm(x, weight.shape, weight, EPS)


def rope(x: Tensor, cos: Tensor, sin: Tensor, generated: bool) -> Tensor:
    """The heads of x [T, H, 2 * D] rotated by the angles of their tokens; the tables are [T, D]."""
    first, second = x.chunk(2, dim=-1)
    if generated:
        return torch.cat(torch.ops.llama.rope(first, second, cos, sin), dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def attention(query: Tensor, key: Tensor, value: Tensor, generated: bool) -> Tensor:
    """Causal attention of heads [T, H, D]; the generated kernels take D = 128."""
    if generated:
        return torch.ops.llama.attention(query, key, value, query.shape[-1] ** -0.5)[0]
    heads = [part.transpose(0, 1)[None] for part in (query, key, value)]
    return functional.scaled_dot_product_attention(*heads, is_causal=True)[0].transpose(0, 1)


def swiglu(gate: Tensor, up: Tensor, generated: bool) -> Tensor:
    """silu(gate) * up."""
    return torch.ops.llama.swiglu(gate, up) if generated else functional.silu(gate) * up


def linear(x: Tensor, weight: Tensor, generated: bool) -> Tensor:
    """x [T, K] times the weight [N, K], transposed."""
    return torch.ops.llama.linear(x, weight) if generated else functional.linear(x, weight)


def cross_entropy(logits: Tensor, target: Tensor, generated: bool) -> Tensor:
    """The mean over tokens of the cross entropy of logits [T, V]."""
    if generated:
        return torch.ops.llama.cross_entropy(logits, target)[0].mean()
    return functional.cross_entropy(logits.float(), target)


class Block(nn.Module):
    """Attention and a gated feed-forward layer, each behind a norm and added to what it reads; then a head and a loss.

    Tokens [T] of one sequence, a width of `heads` times `size`, `hidden` gates and a vocabulary of `words`. `generated`
    says whether generated kernels compute what they can, or torch.
    """

    def __init__(self, words: int, heads: int, size: int, hidden: int, generated: bool) -> None:
        super().__init__()
        self.heads, self.size, self.generated = heads, size, generated
        width = heads * size
        shapes = {
            "embedding": (words, width),
            "query": (width, width),
            "key": (width, width),
            "value": (width, width),
            "output": (width, width),
            "gate": (hidden, width),
            "up": (hidden, width),
            "down": (width, hidden),
            "head": (words, width),
        }
        for name, shape in shapes.items():
            weight = torch.randn(shape, dtype=torch.float32) / shape[1] ** 0.5
            setattr(self, name, nn.Parameter(weight.to(torch.bfloat16)))
        for name in ("before_attention", "before_gates", "before_head"):
            setattr(self, name, nn.Parameter(torch.ones(width, dtype=torch.bfloat16)))

    def forward(self, tokens: Tensor, target: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """The loss of predicting `target` [T] from `tokens` [T]."""
        own = self.generated
        x = self.embedding[tokens]
        y = rms_norm(x, self.before_attention, own)
        query, key, value = (
            linear(y, weight, own).view(-1, self.heads, self.size) for weight in (self.query, self.key, self.value)
        )
        query, key = rope(query, cos, sin, own), rope(key, cos, sin, own)
        y = attention(query, key, value, own)
        x = x + linear(y.reshape(x.shape), self.output, own)
        y = rms_norm(x, self.before_gates, own)
        y = swiglu(linear(y, self.gate, own), linear(y, self.up, own), own)
        x = x + linear(y, self.down, own)
        return cross_entropy(linear(rms_norm(x, self.before_head, own), self.head, own), target, own)


def tables(tokens: int, size: int, device: str) -> tuple[Tensor, Tensor]:
    """Cosines and sines [T, size / 2] of the angles by which tokens are rotated."""
    steps = torch.arange(size // 2, device=device, dtype=torch.float32)
    angles = torch.arange(tokens, device=device, dtype=torch.float32)[:, None] * 10000.0 ** (-2 * steps / size)
    return angles.cos(), angles.sin()


def train(model: nn.Module, steps: int, tokens: int, words: int, size: int, device: str, seed: int = 0) -> list[float]:
    """The losses of some steps of gradient descent on one random sequence, which the model comes to know by heart."""
    generator = torch.Generator().manual_seed(seed)
    text = torch.randint(words, (tokens + 1,), generator=generator).to(device)
    cos, sin = tables(tokens, size, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(text[:-1], text[1:], cos, sin)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
