"""How agents, barriers and cells are called in texts. Blocks, warpgroups and parts of them are named where a run has
several.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.parts.acts import Agent, Barrier, Cell, NamedBarrier, Run


@dataclass(frozen=True)
class Wording:
    clustered: bool
    grouped: frozenset[str]  # roles of several warpgroups
    parted: frozenset[str]  # roles whose warpgroups have several agents

    @classmethod
    def of(cls, run: Run) -> Wording:
        return cls(
            any(agent.block for agent in run.acts),
            frozenset(agent.role for agent in run.acts if agent.group),
            frozenset(agent.role for agent in run.acts if agent.part),
        )

    def agent(self, agent: Agent) -> str:
        details = [
            *[f"warpgroup {agent.group}"] * (agent.role in self.grouped),
            *[f"part {agent.part}"] * (agent.role in self.parted),
            *[f"block {agent.block}"] * self.clustered,
        ]
        return f"{agent.role} ({', '.join(details)})" if details else agent.role

    def barrier(self, barrier: Barrier) -> str:
        return f"{barrier.name}[{barrier.index}]{self._of_block(barrier.block)}"

    def cell(self, cell: Cell) -> str:
        place = f"[{', '.join(map(str, cell.place))}]" if cell.place else ""
        return f"{cell.name}{place}{self._of_block(cell.block)}"

    def named(self, barrier: NamedBarrier) -> str:
        return f"named barrier {barrier.number}{self._of_block(barrier.block)}"

    def _of_block(self, block: int) -> str:
        return f" of block {block}" if self.clustered else ""


def content_text(content: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, content))})"
