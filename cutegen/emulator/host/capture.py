"""Finds what a compiled module would launch, by running its own host code in this process, without a GPU.

The host code that `cute.compile` makes calls a dozen functions of the CUDA runtime. Here they are Python functions.
All of them succeed, and the one that launches writes down the grid, the block, the dynamic shared memory, the stream,
the kernel's name and the bytes of its parameters. Nothing of a launch is derived a second time.

Tensors are passed as the calling convention of shipped modules wants them: as `DLTensor`s on a CUDA device, with the
addresses that the caller chooses. Host code checks the tensors and passes the addresses on, and never looks at what
lies there. So every tensor can be given an address range far from all others (see `bound_tensors.place`).
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutegen.emulator.checks.faults import Fault, FaultError
from cutegen.emulator.host.limits import (
    CURRENT_STREAM,
    LARGEST_CLUSTER,
    PORTABLE_CLUSTER,
    refused_cluster,
    refused_sizes,
)
from cutegen.emulator.host.packing import AnyValue, Argument, pack
from cutegen.errors import CutegenError

_NO_ATTRIBUTE = {0: "ignored", 2: "cooperative"}  # launch attributes that mean nothing while they are zero
_CLUSTER = 4  # the launch attribute of the cluster's sizes
_EARLY = 6  # programmatic stream serialization: that of a launch that need not wait for the one before to end
_NON_PORTABLE = 14  # the attribute of kernels that allows clusters of more than 8 blocks


class CaptureError(CutegenError):
    """The host code cannot be run here, or asks for what is not emulated."""


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel. `grid` counts blocks and `block` threads, both as (x, y, z).

    `shared` is the dynamic shared memory of a block in bytes. `parameters` are the bytes of the parameter space, laid
    out as the PTX declares it. `device` is the number of the CUDA device that was current. `stream` is the handle of
    the stream that it goes on: `CURRENT_STREAM`, or one that the host code has from elsewhere. `cluster` are the sizes
    of a cluster in blocks, as (x, y, z). `early` says that it may start before what is ahead of it in the stream has
    ended.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    parameters: bytes
    device: int = 0
    stream: int = CURRENT_STREAM
    cluster: tuple[int, int, int] = (1, 1, 1)
    early: bool = False


class _Config(ctypes.Structure):
    """The configuration of a launch (`cudaLaunchConfig_t`)."""

    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint64),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
    ]


class _Attribute(ctypes.Structure):
    """One attribute of a launch (`cudaLaunchAttribute`)."""

    _fields_ = [("id", ctypes.c_uint32), ("padding", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16)]


_P, _I, _L = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_SIGNATURES: Mapping[str, tuple[Any, ...]] = {
    # name: result, arguments
    "_cudaLaunchKernelEx": (_I, _P, _P, _P),
    "_cudaLaunchKernel": (_I, _P, _I, _I, _I, _I, _I, _I, _P, _L, _P),
    "_cudaLibraryLoadData": (_I, _P, _P, _P, _P, _I, _P, _P, _I),
    "_cudaLibraryGetKernel": (_I, _P, _P, _P),
    "_cuKernelGetAttribute": (_I, _P, _I, _P, _I),
    "_cudaDeviceGetAttribute": (_I, _P, _I, _I),
    "_cudaGetDevice": (_I, _P),
    "_cudaSetDevice": (_I, _I),
    "_cudaKernelSetAttributeForDevice": (_I, _P, _I, _I, _I),
    "_cudaFuncSetAttribute": (_I, _P, _I, _I),
    "_cudaOccupancyMaxActiveBlocksPerMultiprocessor": (_I, _P, _P, _I, _L),
    "cuda_dialect_get_error_name": (_P, _I),
    "cuda_dialect_init_library_once": (_I, _P, _P, _P, _P),
    "cuda_dialect_unload_library_once": (None, _P),
    "CuteDSLRT_TVMFFISetRaisedCudaError": (None, _P, _I),
    "TVMFFIErrorSetRaisedFromCStr": (None, _P, _P),
    "TVMFFIErrorSetRaisedFromCStrParts": (None, _P, _P, _I),
    "TVMFFIEnvGetStream": (_P, _I, _I),
}
# A device with more of everything than any kernel may use: what fits which device is not decided here.
_DEVICE_ATTRIBUTES = {97: 232448}  # cudaDevAttrMaxSharedMemoryPerBlockOptin, in bytes
_NAMES = itertools.count(1)


class HostCode:
    """The host code of one compiled function. Called with arguments, it returns the launches that it would make.

    `module` is what `cute.compile` made of it with TVM FFI, in MLIR. `parameters` maps the name of each kernel to the
    offset and size in bytes of each of its parameters, as the PTX has them. Raises CaptureError for host code without
    an entry for TVM FFI.
    """

    def __init__(self, module: Any, parameters: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        from cutlass._mlir.execution_engine import ExecutionEngine

        self._parameters = dict(parameters)
        self._kernels: dict[int, str] = {}
        self._non_portable: set[int] = set()  # kernels that allow large clusters
        self._launches: list[Launch] = []
        self._raised: tuple[str, str] | None = None
        self._problem: BaseException | None = None
        self.device = 0  # the CUDA device that is current
        self._callbacks: dict[str, Any] = {}
        self._entry = _entry_name(module)
        # It runs a few dozen times: to make it fast would take longer
        self._engine = ExecutionEngine(module, opt_level=0, shared_libs=[])
        for name, (result, *arguments) in _SIGNATURES.items():
            callback = ctypes.CFUNCTYPE(result, *arguments)(self._guarded(name, result is _I))
            self._callbacks[name] = callback
            self._engine.raw_register_runtime(name, ctypes.cast(callback, ctypes.c_void_p))
        self._library = (ctypes.c_void_p * 1)()
        self._initialised = False
        address = self._engine.raw_lookup(self._entry)  # of a wrapper that takes pointers to arguments and result
        if not address:
            raise CaptureError(f"the host code has no function {self._entry}")
        self._function = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p))(address)

    def __call__(self, *arguments: Argument) -> list[Launch]:
        """The launches of one call, in order.

        Raises what the compiled host code raises for arguments that it refuses (TypeError, ValueError, RuntimeError or
        CUDADialectError), CaptureError for a launch that is not emulated, and FaultError for one that no device takes.
        """
        self._launches, self._raised, self._problem = [], None, None
        packed = (AnyValue * max(1, len(arguments)))()
        alive: list[object] = []
        for slot, argument in zip(packed, arguments, strict=False):
            pack(slot, argument, alive)
        result, code = AnyValue(), ctypes.c_int32()
        values = (
            ctypes.c_void_p(None),
            ctypes.c_void_p(ctypes.addressof(packed)),
            ctypes.c_int32(len(arguments)),
            ctypes.c_void_p(ctypes.addressof(result)),
            code,
        )
        self._function((ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values)))
        if self._problem is not None:
            raise self._problem
        if code.value != 0:
            kind, message = self._raised or ("RuntimeError", f"the host code answers {code.value}")
            if kind == "CUDADialectError":
                from cutlass.cutlass_dsl.tvm_ffi_provider import CUDADialectError

                raise CUDADialectError(message)
            known = {"TypeError": TypeError, "ValueError": ValueError}
            raise known.get(kind, RuntimeError)(message)
        return self._launches

    def _guarded(self, name: str, answers: bool) -> Callable[..., Any]:
        """The Python function for a function of the runtime; `answers` says that it returns an error code.

        What it raises is kept, to be raised once the host code has returned.
        """
        function = getattr(self, "_on" + (name if name.startswith("_") else "_" + name))

        def call(*arguments: Any) -> Any:
            try:
                result = function(*arguments)
                return (result or 0) if answers else result
            except BaseException as problem:  # must not travel through compiled frames
                self._problem = self._problem or problem
                return 999 if answers else None

        return call

    # ------------------------------------------------------------------ the CUDA runtime, as the host code calls it

    def _on_cudaLaunchKernelEx(self, config: int, function: int, arguments: int) -> None:
        launch = _Config.from_address(config)
        cluster, early = (1, 1, 1), False
        for i in range(launch.count):
            attribute = _Attribute.from_address(launch.attributes + i * ctypes.sizeof(_Attribute))
            values = tuple(attribute.value)
            if attribute.id == _CLUSTER:
                cluster = (values[0] or 1, values[1] or 1, values[2] or 1)
                continue
            if attribute.id == _EARLY:
                early = bool(values[0])
                continue
            if attribute.id not in _NO_ATTRIBUTE or values[0]:
                what = _NO_ATTRIBUTE.get(attribute.id, f"number {attribute.id}")
                raise CaptureError(f"the launch attribute {what} with value {list(values[:3])} is not emulated")
        self._launch(
            function, tuple(launch.grid), tuple(launch.block), launch.shared, launch.stream, arguments, cluster, early
        )

    def _on_cudaLaunchKernel(
        self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, stream: int, shared: int, args: int
    ) -> None:
        grid, block = ((x & 0xFFFF_FFFF, y & 0xFFFF_FFFF, z & 0xFFFF_FFFF) for x, y, z in ((gx, gy, gz), (bx, by, bz)))
        self._launch(function, grid, block, shared, stream, args)

    def _launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        stream: int | None,
        arguments: int,
        cluster: tuple[int, int, int] = (1, 1, 1),
        early: bool = False,
    ) -> None:
        """Notes a launch. `arguments` is the address of an array of pointers to the kernel's parameters."""
        name = self._kernels.get(function or 0)
        if name is None:
            raise CaptureError("the host code launches something that it did not load")
        layout = self._parameters.get(name)
        if layout is None:
            raise CaptureError(f"the PTX has no kernel {name}; it has {', '.join(self._parameters)}")
        buffer = bytearray(max((offset + size for offset, size in layout), default=0))
        pointers = (ctypes.c_void_p * max(1, len(layout))).from_address(arguments) if layout else ()
        for (offset, size), pointer in zip(layout, pointers, strict=False):
            buffer[offset : offset + size] = ctypes.string_at(pointer, size)
        most = LARGEST_CLUSTER if function in self._non_portable else PORTABLE_CLUSTER
        if refusal := refused_sizes(grid, block) or refused_cluster(grid, cluster, most):
            raise FaultError(Fault("launch", refusal, name))
        self._launches.append(
            Launch(name, grid, block, shared, bytes(buffer), self.device, stream or 0, cluster, early)
        )

    def _on_cudaLibraryLoadData(self, library: int, *_: Any) -> None:
        ctypes.c_void_p.from_address(library).value = 1

    def _on_cudaLibraryGetKernel(self, kernel: int, library: int, name: int) -> None:
        handle = next(_NAMES)
        self._kernels[handle] = ctypes.string_at(name).decode()
        ctypes.c_void_p.from_address(kernel).value = handle

    def _on_cuKernelGetAttribute(self, value: int, *_: Any) -> None:
        ctypes.c_int32.from_address(value).value = 0

    def _on_cudaDeviceGetAttribute(self, value: int, attribute: int, device: int) -> None:
        if attribute not in _DEVICE_ATTRIBUTES:
            raise CaptureError(f"the host code asks for device attribute {attribute}, which is not emulated")
        ctypes.c_int32.from_address(value).value = _DEVICE_ATTRIBUTES[attribute]

    def _on_cudaGetDevice(self, device: int) -> None:
        ctypes.c_int32.from_address(device).value = self.device

    def _on_cudaSetDevice(self, device: int) -> None:
        self.device = device

    def _on_cudaKernelSetAttributeForDevice(self, kernel: int, attribute: int, value: int, device: int) -> None:
        self._on_cudaFuncSetAttribute(kernel, attribute, value)

    def _on_cudaFuncSetAttribute(self, kernel: int, attribute: int, value: int) -> None:
        if attribute == _NON_PORTABLE and value:
            self._non_portable.add(kernel)

    def _on_cudaOccupancyMaxActiveBlocksPerMultiprocessor(self, *_: Any) -> None:
        raise CaptureError("the host code asks for the occupancy, which is not emulated")

    def _on_cuda_dialect_get_error_name(self, code: int) -> int | None:
        return None

    def _on_cuda_dialect_init_library_once(self, state: int, init: int, load: int, set_error: int) -> None:
        if self._initialised:
            return
        if ctypes.CFUNCTYPE(_I, _P)(init)(ctypes.addressof(self._library)):
            raise CaptureError("cuda_init of the host code fails")
        if ctypes.CFUNCTYPE(_I, _P, _I)(load)(ctypes.addressof(self._library), 0):
            raise CaptureError("cuda_load_to_device of the host code fails")
        self._initialised = True

    def _on_cuda_dialect_unload_library_once(self, state: int) -> None:
        pass

    def _on_CuteDSLRT_TVMFFISetRaisedCudaError(self, setter: int, code: int) -> None:
        self._raised = ("CUDADialectError", f"CUDA Error Code: {code}")

    def _on_TVMFFIErrorSetRaisedFromCStr(self, kind: int, message: int) -> None:
        self._raised = (ctypes.string_at(kind).decode(), ctypes.string_at(message).decode())

    def _on_TVMFFIErrorSetRaisedFromCStrParts(self, kind: int, parts: int, count: int) -> None:
        pointers = (ctypes.c_void_p * count).from_address(parts)
        message = "".join(ctypes.string_at(p).decode() for p in pointers if p)
        self._raised = (ctypes.string_at(kind).decode(), message)

    def _on_TVMFFIEnvGetStream(self, kind: int, device: int) -> int:
        return CURRENT_STREAM


def _entry_name(module: Any) -> str:
    """The name of the function in host code that TVM FFI calls. Raises CaptureError unless there is exactly one.

    The names are asked for one by one: to print the module, code of the device included, takes much longer.
    """
    functions = [operation.attributes for operation in module.body if operation.operation.name == "llvm.func"]
    named: list[str] = [one["sym_name"].value for one in functions if "internal" not in str(one["linkage"])]
    entries = [name for name in named if name.startswith("__tvm_ffi_")]
    if len(entries) != 1:
        raise CaptureError(
            "the compiled host code has no TVM FFI entry; compile with cute.EnableTVMFFI(), as generated modules do"
        )
    return entries[0]
