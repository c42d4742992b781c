"""One worker of a run: ``python -m starling.launch.worker package.module:function spec.json``, in every process.

Whoever starts the processes tells them their ranks and where to meet, in the environment variables of torchrun: `local.py` does so
on one machine, torchrun itself on several (docs/launching.md):

    torchrun --nnodes 2 --node-rank 0 --nproc-per-node 4 --master-addr first-machine --master-port 29400 \\
        -m starling.launch.worker package.module:function spec.json --result result.json

``function(team, spec)`` is called in each process; what it returns in worker 0 is the result, a JSON object, on standard output
unless `--result` names a file. Exit status: 0 done, 2 the user's mistake, 1 anything else, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

from starling.comm.heartbeat import DEADLINE
from starling.comm.phase import Phase
from starling.comm.signs_of_life import Lost
from starling.core import environment
from starling.core.errors import InputError, StarlingError
from starling.launch.desk import DONE, Desk, write_whole
from starling.launch.lifeline import die_with_parent
from starling.launch.membership import Links, Membership
from starling.launch.reports import Report

Entry = Callable[[Any, dict[str, Any]], Mapping[str, Any]]

_INTERRUPTED = 130
_SILENCE = 0.6
"""Share of the deadline after which a worker that gives no sign of life is given up."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Be a worker from beginning to end."""
    options = _parse(arguments)
    output = _keep_standard_output()
    try:
        place = environment.place_in_run()
        threads = environment.set_worker_threads(options.threads, place.local_size)
    except InputError as error:
        sys.stderr.write(f"starling: {error}\n")
        sys.exit(error.exit_status)
    environment.prefer_huge_pages()
    environment.wait_without_spinning()
    environment.silence_torch_warnings()
    die_with_parent(options.launcher)
    if options.desk is not None:
        environment.talk_over_loopback()
        tempfile.tempdir = str(options.desk)  # the launcher removes it, however this process ends
        worker: _Worker = _LocalWorker(place, options, Desk(options.desk))
    else:
        worker = _Worker(place, options)
    status = worker.live(threads, output)
    _flush()
    # All that was opened is closed, or must not be waited for; the libraries' own farewells could hang on a peer that is gone.
    os._exit(status)


class _Worker:
    """A worker that was started by torchrun: it speaks for itself, on standard error."""

    def __init__(self, place: environment.Place, options: argparse.Namespace) -> None:
        self.place, self.options = place, options
        self.phase = Phase()
        self.links = Links(_SILENCE * options.deadline, options.transport, options.device)
        self.membership: Membership | None = None
        self._telling, self._has_told = threading.Lock(), False

    def live(self, threads: int, output: int) -> int:
        """Do the work; the exit status."""
        try:
            self.work(threads, output)
        except BaseException as error:
            self.tell(Report.of(error, self.place.rank, self.phase))
            if isinstance(error, StarlingError):
                return error.exit_status
            return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
        self.phase.enter(DONE)
        return 0

    def work(self, threads: int, output: int) -> None:
        """Join, call the entry, leave."""
        entry, spec = find_entry(self.options.entry), read_spec(self.options.spec)
        import torch

        torch.set_num_threads(threads)
        self.phase.enter("meeting the other workers")
        self.membership = Membership(self.place, self.links, self.phase, self.give_up)
        self.heed_termination()
        result = entry(self.membership.team, spec)
        if self.place.rank == 0:
            self.write(result, output)
        self.phase.enter("waiting for the other workers to finish")
        self.membership.leave()

    def give_up(self, lost: Lost) -> None:
        """End this process, because another is lost; its main thread may wait for it inside a library."""
        self.tell(Report.on(lost, self.place.rank, self.phase, self.links.silence), lost.kill)
        _flush()
        os._exit(1)

    def heed_termination(self) -> None:
        """From here on, SIGTERM ends this process only when it has said what it knows: torchrun sends it when another has died.

        A thread hears it through a pipe, since the main one may be within a call that lets no Python handler run.
        """
        hears, heard = os.pipe()
        os.set_blocking(heard, False)

        def listen() -> None:
            while signal.SIGTERM not in os.read(hears, 1):
                pass
            self.tell(Report.on_termination(self.place.rank, self.phase))
            _flush()
            os._exit(128 + signal.SIGTERM)

        def forked() -> None:  # a child has nothing to say
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

        signal.set_wakeup_fd(heard, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda number, frame: None)  # what is handled is written to the pipe
        os.register_at_fork(after_in_child=forked)
        threading.Thread(target=listen, name="termination", daemon=True).start()

    def write(self, result: Mapping[str, Any], output: int) -> None:
        """Hand the result over."""
        if self.options.result is not None:
            write_whole(self.options.result, result)
        else:
            with os.fdopen(output, "w") as file:
                file.write(json.dumps(result) + "\n")

    def tell(self, report: Report, then: Callable[[], None] = lambda: None) -> None:
        """Say what ended the run, once, unless somebody else does; and `then` do what no other thread may forestall by ending."""
        with self._telling:
            if not self._has_told:
                self._has_told = True
                first = report if self.membership is None else self.membership.inquest.to_tell(report)
                if first is not None:
                    sys.stderr.write(f"starling: {first.error(self.place.size)}\n")
            then()


class _LocalWorker(_Worker):
    """A worker of `local.py`: it leaves everything on the launcher's desk, and the launcher speaks."""

    def __init__(self, place: environment.Place, options: argparse.Namespace, desk: Desk) -> None:
        super().__init__(place, options)
        self.desk = desk
        self.phase = desk.phase(place.rank)

    def write(self, result: Mapping[str, Any], output: int) -> None:
        """Hand the result over."""
        write_whole(self.desk.result, result)

    def heed_termination(self) -> None:
        """SIGTERM ends this process at once, and the launcher sees that."""

    def tell(self, report: Report, then: Callable[[], None] = lambda: None) -> None:
        """Leave a report; the launcher finds the first cause."""
        self.desk.file_report(report, by=str(self.place.rank))
        then()


def find_entry(text: str) -> Entry:
    """The function that ``package.module:function`` names."""
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise InputError(f"Expected the work of a worker as package.module:function, got '{text}'.")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InputError(f"There is no module '{error.name}' to run {text} from.") from error
    if not callable(found):
        raise InputError(f"The module {module} has no function '{name}' to run.")
    entry: Entry = found
    return entry


def read_spec(path: Path) -> dict[str, Any]:
    """The JSON object in a file, which every worker is given."""
    try:
        spec = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"Expected a JSON file to tell workers what to do, got {path}: {error}.") from error
    if not isinstance(spec, dict):
        raise InputError(f"Expected a JSON object in {path}, got a {type(spec).__name__}.")
    return spec


def _flush() -> None:
    """Let out what was printed without the end of a line: ``os._exit`` would not."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def _keep_standard_output() -> int:
    """A file number for the result alone; whatever else is printed goes to standard error, line by line.

    With PYTHONUNBUFFERED, which containers often set, ``print`` writes a line and its end apart: those of two workers mingle.
    """
    output = os.dup(1)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)
    return output


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m starling.launch.worker", description="One worker of a run.")
    parser.add_argument("entry", help="what to run, as package.module:function")
    parser.add_argument("spec", type=Path, help="JSON file that is given to the function")
    parser.add_argument("--result", type=Path, help="file for the result; standard output by default")
    parser.add_argument("--threads", type=int, help="threads of a worker; by default its share of the machine's cores")
    parser.add_argument(
        "--transport", default="auto", help="auto: memory within a machine, sockets between; gloo: sockets only"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--deadline", type=float, default=DEADLINE, help="seconds from a worker's end to the end of the run")
    for_launcher = parser.add_argument_group("given by starling train")
    for_launcher.add_argument("--desk", type=Path, help="directory of the run")
    for_launcher.add_argument("--launcher", type=int, help="process to live and die with")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
