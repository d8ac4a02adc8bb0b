"""A GPU that is not there: while it is pretended, torch says that there is one, and tensors on it lie in the CPU's
memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from types import SimpleNamespace
from typing import Any
from unittest import mock

from cutegen.atoms.gpus import GPUS, Gpu
from cutegen.atoms.targets import TARGETS
from cutegen.emulator.calls.memory import Memory
from cutegen.emulator.host.capture import CaptureError
from cutegen.emulator.host.device_tensors import on_device
from cutegen.emulator.host.limits import CURRENT_STREAM

_EMPTY = ("empty", "empty_strided", "empty_like", "empty_permuted", "new_empty", "new_empty_strided")
_BYTES = 1 << 36  # of the GPU's memory
_MEMORY: ContextVar[Memory | None] = ContextVar("memory", default=None)


@contextmanager
def pretended_gpu(target: str, memory: Memory, multiprocessors: int | None = None) -> Iterator[None]:
    """While it is entered, torch and CuTeDSL have a GPU of that target, with so many multiprocessors; None: with those
    of the GPU that stands for the target.

    What torch makes on it is made in the CPU's memory, is `on_device`, and is noted in `memory`. Its current stream is
    the one that emulated code is launched on. Raises CaptureError for a target whose GPUs are not known.
    """
    import torch

    if target not in TARGETS:
        raise CaptureError(f"there is no target {target}", f"the targets are {', '.join(TARGETS)}")
    with ExitStack() as stack:
        gpu = replace(GPUS[target], sms=multiprocessors or GPUS[target].sms)
        for name, value in _torch_cuda(target, gpu).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        for patch in _dsl(target, gpu):
            stack.enter_context(patch)
        for patch in _outputs():
            stack.enter_context(patch)
        stack.enter_context(_backward(memory))
        stack.enter_context(_mode(memory))
        stack.callback(_forget_pretence)
        stack.callback(_MEMORY.reset, _MEMORY.set(memory))
        yield


def _forget_pretence() -> None:
    """Lets torch's compiler look up again what is in `torch.cuda`, if it was imported meanwhile."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None:
        rules.clear_lru_cache()


def _torch_cuda(target: str, gpu: Gpu) -> dict[str, Any]:
    """The attributes of `torch.cuda` on a machine with such a GPU, by name, as far as they are replaced."""
    import torch

    limits = TARGETS[target]
    number = limits.number
    properties = SimpleNamespace(
        name=gpu.name,
        major=number // 10,
        minor=number % 10,
        multi_processor_count=gpu.sms,
        total_memory=_BYTES,
        warp_size=32,
        max_threads_per_multi_processor=limits.threads_per_sm,
        regs_per_multiprocessor=limits.registers_per_sm,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=limits.smem_per_block,
        shared_memory_per_multiprocessor=limits.smem_per_sm,
        L2_cache_size=50 << 20,
        gcnArchName=target,
    )
    device = torch.device("cuda", 0)
    stream, default = (
        SimpleNamespace(
            cuda_stream=handle,
            device=device,
            device_index=0,
            synchronize=_nothing(),
            wait_stream=_nothing(),
            wait_event=_nothing(),
            query=lambda: True,
        )
        for handle in (CURRENT_STREAM, 0)
    )
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": _nothing(),
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": _nothing(),
        "synchronize": _nothing(),
        "empty_cache": _nothing(),
        "get_device_capability": lambda device=None: (number // 10, number % 10),
        "get_device_properties": lambda device=None: properties,
        "get_device_name": lambda device=None: gpu.name,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: default,
        "stream": lambda stream: nullcontext(),
        "device": lambda device: nullcontext(),
        "is_current_stream_capturing": lambda: False,
    }


def _nothing() -> Callable[..., None]:
    """A function that does nothing, another one each time: torch tells functions apart by what they are."""
    return lambda *given, **named: None


def _dsl(target: str, gpu: Gpu) -> Iterator[Any]:
    """Patches of what CuTeDSL asks the driver: which GPU there is, and how many blocks it holds."""
    import cutlass.base_dsl.runtime.cuda as driver
    from cutlass.cutlass_dsl import CuTeDSL
    from cutlass.utils import HardwareInfo

    limits = TARGETS[target]

    def made(self: Any, device_id: int = 0) -> None:
        self.device_id = device_id

    def clusters(self: Any, cluster_size: int, stream: Any = None) -> int:
        return gpu.sms // cluster_size

    known = {
        "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": gpu.sms,
        "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": limits.smem_per_sm,
        "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": limits.smem_per_block,
    }

    def attribute(asked: Any, device_id: int = 0) -> int:
        name = getattr(asked, "name", str(asked))
        if name not in known:
            raise CaptureError(f"the function asks the driver for {name}, which is not emulated")
        return known[name]

    yield mock.patch.object(CuTeDSL._get_dsl().envar, "arch", target)
    yield mock.patch.object(driver, "get_device_attribute", attribute)
    yield mock.patch.object(HardwareInfo, "__init__", made)
    yield mock.patch.object(HardwareInfo, "get_device_multiprocessor_count", lambda self: gpu.sms)
    yield mock.patch.object(HardwareInfo, "get_max_active_clusters", clusters)


def _outputs() -> Iterator[Any]:
    """Patches of the function that generated modules make their outputs with, which no mode of torch sees: for modules
    that are imported meanwhile, and in those that were imported before."""
    import torch

    guards: Any = torch._C._dynamo.guards
    name = "_empty_strided_cuda"
    real = getattr(guards, name, None)

    def empty(sizes: Sequence[int], strides: Sequence[int], dtype: Any) -> Any:
        return torch.empty_strided(tuple(sizes), tuple(strides), dtype=dtype, device="cuda")

    if real is not None:
        yield mock.patch.object(guards, name, empty)
        for module in list(sys.modules.values()):
            if vars(module).get("_EMPTY") is real:
                yield mock.patch.object(module, "_EMPTY", empty)


def _backward(memory: Memory) -> Any:
    """A patch of what runs a backward pass: torch has left the mode then, which called it."""
    import torch

    engine: Any = torch.autograd
    run = engine._engine_run_backward

    def within(*arguments: Any, **named: Any) -> Any:
        with _mode(memory):
            return run(*arguments, **named)

    return mock.patch.object(engine, "_engine_run_backward", within)


def _mode(memory: Memory) -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    class PretendedGpu(TorchFunctionMode):
        """Makes tensors on the CPU where torch is asked for ones on a GPU."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = dict(kwargs or {})
            name = getattr(func, "__name__", "")
            if name in ("cuda", "cpu", "to") and func is getattr(torch.Tensor, name):
                return _moved(memory, func, args, named)
            _know_on_cpu(func)
            asked, gradient = named.get("device"), False
            if asked is not None and torch.device(asked).type == "cuda":
                named["device"] = "cpu"
                gradient = bool(named.pop("requires_grad", False))  # of what is returned, which is to be a leaf
                result = func(*args, **named)
            else:
                result = func(*args, **named)
                if not isinstance(result, torch.Tensor) or result.device.type == "cpu" or name not in _EMPTY:
                    return result
            if not isinstance(result, torch.Tensor):
                return result
            made = on_device(result)
            memory.make(made, empty=name in _EMPTY)
            return made.requires_grad_() if gradient else made

    return PretendedGpu()


def _moved(memory: Memory, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Runs `to`, `cuda` or `cpu` of a tensor; a result on the GPU is `on_device`, and noted in `memory` if it moved."""
    import torch

    tensor, *rest = args
    plain = tensor.as_subclass(torch.Tensor)
    if func is torch.Tensor.to:
        places = [a for a in (*rest, *named.values()) if isinstance(a, (str, torch.device, torch.Tensor))]
        if not places:
            return func(*args, **named)
        device = places[0].device if isinstance(places[0], torch.Tensor) else torch.device(places[0])
        where = device.type
        rest = ["cpu" if a is places[0] and not isinstance(a, torch.Tensor) else _plain(a) for a in rest]
        named = {k: "cpu" if a is places[0] and not isinstance(a, torch.Tensor) else a for k, a in named.items()}
        result = torch.Tensor.to(plain, *rest, **named)
    else:
        where = func.__name__
        result = plain
    moves = tensor.device.type != where
    if moves and result.untyped_storage().data_ptr() == plain.untyped_storage().data_ptr():
        result = result.clone()
    if where != "cuda":
        return result
    made = on_device(result)
    if moves:
        memory.make(made, empty=False)
    return made


def _plain(value: Any) -> Any:
    import torch

    return value.as_subclass(torch.Tensor) if isinstance(value, torch.Tensor) else value


def _know_on_cpu(func: Any) -> None:
    """Lets an op of torch that is a Python function take tensors of the pretended GPU, which lie in the CPU's memory.

    These are ops that were registered by `torch.library.custom_op`, also those for `device_types="cuda"` only. Their
    tensors on a GPU are also made in the CPU's memory: torch has left the mode that would redirect them.
    """
    import torch

    if not isinstance(func, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return
    from torch._library.custom_ops import OPDEFS

    name = func._schema.name if isinstance(func, torch._ops.OpOverload) else func._qualified_op_name
    known: Any = OPDEFS.get(name)
    functions = getattr(known, "_backend_fns", {})
    for device, function in functions.items():
        if not hasattr(function, "_cutegen_within"):
            functions[device] = _within(function)
    if "cuda" in functions and not {"cpu", None} & set(functions):
        known.register_kernel("cpu")(functions["cuda"])
        functions["cpu"] = functions["cuda"]


def _within(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, in which there is a pretended GPU, where one is pretended when it is called."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        memory = _MEMORY.get()
        with nullcontext() if memory is None else _mode(memory):
            return function(*arguments, **named)

    vars(call)["_cutegen_within"] = True
    return call
