"""Trains the block beside torch's own on a GPU: losses of the first steps, and the time of a step, of each way.

python docs/llama/measure.py [--tokens 4096] [--size 128] [--heads 32] [--hidden 14336] [--words 32000]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from block import Block, load_kernels, tables, train

WAYS = ("torch", "torch, compiled", "generated", "generated, compiled")
ROUNDS = 40


def main() -> None:
    """Prints a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("tokens", 4096), ("size", 128), ("heads", 32), ("hidden", 14336), ("words", 32000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    told = parser.parse_args()
    load_kernels()
    models, losses, steps = {}, {}, {}
    for way in WAYS:
        torch.manual_seed(1)
        model = Block(told.words, told.heads, told.size, told.hidden, way.startswith("generated")).cuda()
        models[way] = torch.compile(model, fullgraph=True) if way.endswith("compiled") else model
        losses[way] = train(models[way], 5, told.tokens, told.words, told.size, "cuda")
        steps[way] = _step(models[way], told)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            steps[way]()
            end.record()
            torch.cuda.synchronize()
            times[way].append(start.elapsed_time(end))
    for way in WAYS:
        median = statistics.median(times[way])
        spread = (max(times[way]) - min(times[way])) / median
        shown = " ".join(f"{loss:.4f}" for loss in losses[way])
        print(f"{way:20s} {median:8.3f} ms a step, spread {spread:.1%}; losses {shown}")


def _step(model: torch.nn.Module, told: argparse.Namespace) -> Callable[[], None]:
    """A step without the optimizer, which is the same for all: forwards and backwards."""
    text = torch.randint(told.words, (told.tokens + 1,), device="cuda")
    cos, sin = tables(told.tokens, told.size, "cuda")

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(text[:-1], text[1:], cos, sin).backward()

    for _ in range(3):
        step()
    return step


if __name__ == "__main__":
    main()
