"""Worker processes: what may crash, hang or take memory runs in them, and the process that asks goes on.

A `Crew` keeps a few workers of one kind and runs jobs on them; what became of a job is its `Ending`. A room that has
jobs describes its workers with a `Setup`, and has a module with a function `main` that calls `serve` in the worker.

The protocol is lines of text. The crew writes a job as one line to the worker's standard input: its pickle in base64.
The worker writes JSON objects of one key to its standard output, `{KIND: DATA}`:

- `ready` once it can take jobs, or `unusable` with the reason why no process of its kind can; then it ends;
- `taken` as it reads a job, and then events of the room's own kinds as the job goes on;
- at a job's end `result`, or `last` where the worker takes no other job after it; a job may go on after its result,
  until the next one comes;
- `refused` with an error number in the place of all that, where this process cannot do any job: its folder is gone.

A worker that is silent for too long is killed, with all processes that it started. One that crashed, was killed or is
spent is replaced as soon as there is a job for another one. A job that a worker refused, or did not live to take, is
given to a fresh worker once more. The end of the crew ends its workers, and removes their folders: Ctrl-C reaches the
process that asks, not its workers.
"""

from __future__ import annotations

from cutegen.workers.crew import Crew, processors
from cutegen.workers.ending import Death, Ending, exit_text, signal_name
from cutegen.workers.fork_server import may_fork
from cutegen.workers.forked import end_fork_servers
from cutegen.workers.serving import Going, Last, Refused, Tell, Unusable, serve
from cutegen.workers.worker import Setup, prepare, python_path, worker_command

__all__ = [
    "Crew",
    "Death",
    "Ending",
    "Going",
    "Last",
    "Refused",
    "Setup",
    "Tell",
    "Unusable",
    "end_fork_servers",
    "exit_text",
    "may_fork",
    "prepare",
    "processors",
    "python_path",
    "serve",
    "signal_name",
    "worker_command",
]
