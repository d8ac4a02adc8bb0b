"""The words of the schedule of a warp-specialised gemm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from cutegen.atoms.copies import WIDTHS
from cutegen.atoms.mma import MmaAtomName
from cutegen.families.gemm.words import SWIZZLES, GemmWords, atom_key, tiler_key
from cutegen.language.kinds import ByName, Choice, Integer, Record, Text, key
from cutegen.language.model import KernelSpec

OWN_ATOMS: tuple[MmaAtomName, ...] = ("wgmma",)  # that the templates of this family print
Predicate = Literal["none", "mask"]
Role = Literal["producer", "consumer"]
Roles = Literal["cooperative", "pingpong"]
Turns = Literal["products", "all"]
CopyAtom = Literal["tma", "universal"]
Multicast = Literal["cluster", "none"]
Kind = Literal["grid", "persistent"]
Launch = Literal["dependent", "serial"]
Misaligned = Literal["refuse", "workspace"]
MOST_STAGES = 16  # tiles, or buffers of a warpgroup, in shared memory
MOST_BOX = 256  # elements along a mode that one load brings (PTX ISA 9.1, section 5.5.3)
MOST_CLUSTER = 8  # blocks of a cluster that every Hopper takes


@dataclass(frozen=True)
class Mma:
    """The multiply-accumulate of a warpgroup."""

    atom: MmaAtomName | None = atom_key(OWN_ATOMS)
    rows: str | None = key(
        Text(),
        "The mode of the output, M or N, along which one product has its 64 rows; along the other it has 8 to 256 "
        "columns. N exchanges A and B, for an output with few rows.",
    )
    in_flight: int | None = key(
        Integer(0, 1),
        "Tiles along K whose products may be in flight during the wait for the next tile: 1 keeps the tensor cores "
        "busy; 0 releases a stage as soon as it has been multiplied, for pipelines with few stages.",
    )


@dataclass(frozen=True)
class Warps:
    """The roles of a block's warps: those of the first warpgroup load, those of the others multiply."""

    roles: Roles | None = key(
        Choice(get_args(Roles)),
        "`cooperative`: the consumer warpgroups share a tile's rows; `pingpong`: two of them take whole tiles in "
        "turn, so that one stores its tile while the other multiplies.",
    )
    consumers: int | None = key(
        Integer(1, 3),
        "Consumer warpgroups: each has the same number of the tile's rows, a multiple of 64, and all its columns.",
    )
    turns: Turns | None = key(
        Choice(get_args(Turns)),
        "The work that `pingpong` warpgroups do in turn: `products`, so that their epilogues may overlap, and each "
        "has its own output buffers; or `all`, so that they store one after the other through shared buffers, "
        "which leaves space for another stage of A and B if K is small.",
    )
    registers: Mapping[str, int] = key(
        ByName(Integer(24, 240), "Registers of each of its threads: a multiple of 8."),
        "Registers per thread by role, `producer` and `consumer`: producers release registers that consumers acquire.",
        factory=dict,
    )


@dataclass(frozen=True)
class Copy:
    """How one tensor moves: A and B to shared memory, what the epilogue stores from registers or through it, and what
    it reads there.
    """

    atom: CopyAtom | None = key(
        Choice(get_args(CopyAtom)),
        "Copy atom: `tma` moves whole tiles between global and shared memory, as a tensor map says; `universal` stores "
        "from registers, or loads to them.",
    )
    multicast: Multicast | None = key(
        Choice(get_args(Multicast)),
        "Whether a tile of A or B is loaded once for all blocks of the `cluster` that multiply it, or by each of them.",
    )
    box: int | None = key(
        Integer(8, MOST_BOX),
        "Elements of one load of A or B along the mode that the output has as well. A tile that reaches beyond the "
        "tensor is loaded in such boxes, without those outside of the tensor: writing zeros there takes the "
        "hardware longer than loading a box.",
    )
    through: Literal["smem"] | None = key(
        Choice(("smem",)),
        "Where outputs go from registers, and where tensors that the epilogue reads come from: "
        "tensor maps store from shared memory and load to it.",
    )
    columns: int | None = key(
        Integer(8, 256), "Columns of the tile that a warpgroup writes to shared memory and stores at a time."
    )
    stages: int | None = key(
        Integer(1, MOST_STAGES),
        "Buffers of each warpgroup, with that many columns: one is written while others are stored, or read while "
        "others are loaded. Warpgroups that take turns with `all` share the buffers of outputs.",
    )
    misaligned: Misaligned | None = key(
        Choice(get_args(Misaligned)),
        "A call with a tensor whose address or rows are not aligned to 16 bytes, which tensor maps need: `refuse` "
        "rejects it; `workspace` copies it to a workspace of the call with padded rows, and outputs from there.",
    )
    bits: int | None = key(Choice(WIDTHS), "Width of one access from registers in bits.")


@dataclass(frozen=True)
class SharedMemory:
    """A stage of an operand's tile in shared memory."""

    swizzle: int | None = key(
        Choice(SWIZZLES),
        "Bytes along the operand's contiguous mode, within which runs of 16 bytes are permuted, so that neither "
        "loads nor products have bank conflicts.",
    )


@dataclass(frozen=True)
class Pipeline:
    """The software pipeline from global to shared memory."""

    stages: int | None = key(
        Integer(1, MOST_STAGES), "Tiles in shared memory: one is multiplied while others are in flight."
    )


@dataclass(frozen=True)
class Scheduler:
    """The order in which clusters of thread blocks walk the output's tiles, and how many there are of them."""

    kind: Kind | None = key(
        Choice(get_args(Kind)),
        "`grid`: one block per tile; `persistent`: as many blocks as run at once, or `blocks`, which walk all tiles.",
    )
    raster: str | None = key(Text(), "The mode, M or N, along which consecutive clusters take neighbouring tiles.")
    swizzle: int | None = key(
        Integer(1, 64),
        "Tiles of a cluster along the other mode that are walked together, in a band: concurrent blocks share "
        "operands in L2. 1 is a plain raster.",
    )
    blocks: int | None = key(
        Integer(),
        "Maximum number of thread blocks of a persistent kernel, a multiple of the cluster. Left out: as many as "
        "run at once on the GPU of the call, by its multiprocessors.",
    )
    launch: Launch | None = key(
        Choice(get_args(Launch)),
        "`dependent`: blocks start while the previous kernel of the stream ends, and wait for it only before they "
        "access tensors (programmatic dependent launch); `serial`: they start after it.",
    )


@dataclass(frozen=True)
class WarpspecializedSchedule(GemmWords):
    """Schedule of a matrix product on Hopper's tensor cores."""

    tiler: Mapping[str, int] | None = tiler_key()
    cluster: Mapping[str, int] = key(
        ByName(Integer(1, MOST_CLUSTER), "Blocks along this mode."),
        "Blocks of a cluster along M, N and K: neighbours along N share loads of A, and along M loads of B. Blocks "
        "along K share a tile: each computes a part of its sum, receives the others' partial sums of some columns, "
        "and stores these. This suits products with fewer tiles than multiprocessors.",
        factory=dict,
    )
    mma: Mma = key(Record(Mma), "The multiply-accumulate of a warpgroup.", factory=Mma, block=True)
    warps: Warps = key(Record(Warps), "The roles of a block's warps.", factory=Warps)
    copies: Mapping[str, Copy] = key(
        ByName(Record(Copy), "One tensor's copy."),
        "How tensors move, by tensor: A, B, the outputs, and inputs of the epilogue with all modes of the outputs.",
        factory=dict,
        block=True,
    )
    smem: Mapping[str, SharedMemory] = key(
        ByName(Record(SharedMemory), "One operand's shared memory."), "Shared memory, by operand.", factory=dict
    )
    pipeline: Pipeline = key(Record(Pipeline), "Software pipeline from global to shared memory.", factory=Pipeline)
    predication: Mapping[str, Predicate] = key(
        ByName(
            Choice(get_args(Predicate)),
            "How this mode of the output is guarded: `none`: not, the host refuses a size that does not divide; "
            "`mask`: accesses past the end are masked off. Loads by tensor maps return zeros there.",
        ),
        "Guards by mode.",
        factory=dict,
    )
    scheduler: Scheduler = key(Record(Scheduler), "The order in which thread blocks walk the tiles.", factory=Scheduler)


Spec = KernelSpec[WarpspecializedSchedule]
