"""A run from its config to its result: set up, train epoch by epoch, leave a run directory.

The same function runs in one process and in each worker of a team; the first worker writes the run directory. What differs from
kind to kind of run is in `kinds.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from starling.comm.team import Team
from starling.engine.data.stages import Stages
from starling.train.checkpoints import Checkpoints
from starling.train.config import CONFIG, RunConfig
from starling.train.data_work import replace_stages
from starling.train.journal import Journal
from starling.train.kinds import kind_of
from starling.train.results import Nobody, TrainResult, Watcher
from starling.train.run_directory import RunDirectory
from starling.train.setup import Setup


def fit(
    config: RunConfig,
    run: Path | RunDirectory | None = None,
    *,
    watch: Watcher | None = None,
    team: Team | None = None,
    scratch: Path | None = None,
    stages: Callable[[Stages], Stages] | None = None,
    resume: bool = False,
) -> TrainResult:
    """Train to the end as one worker of `team` (by default alone); the first worker writes the run directory.

    `run` is a path that does not exist yet, or a directory made for this run. The result's model has the best epoch's weights.
    `scratch` is a folder for embeddings beyond their memory, by default the run directory. `stages` may replace stages that prepare
    the batches of a data-parallel worker. With `resume` the run directory is there already, and the run goes on from its newest
    checkpoint, or from the start where it has none.
    """
    began, team, kind = time.monotonic(), team or Team(), kind_of(config)
    team.phase.enter("reading the graph")
    setup = kind.set_up(config, team)
    if stages is not None:
        replace_stages(setup.work, stages)
    # Whatever is refused is refused by what learns: only then is a directory made.
    with kind.learn(setup, team) as learning, _kept(run, setup, team, resume=resume) as directory:
        _begin_embeddings(setup, scratch if directory is None else directory.path)
        journal = Journal(setup, team, directory, watch or Nobody())
        loop = kind.loop(journal, learning)
        checkpoints = Checkpoints(journal, loop)
        done = checkpoints.resume() if resume else 0
        journal.begin()
        with closing(loop.epochs(after=done)) as epochs:
            for epoch in epochs:
                checkpoints.after(epoch)
        return journal.end(began)


@contextmanager
def _kept(run: Path | RunDirectory | None, setup: Setup, team: Team, *, resume: bool) -> Iterator[RunDirectory | None]:
    """Where the first worker keeps this run, its own for as long as it trains; None for the others."""
    if team.rank != 0:
        yield None
        return
    directory = _directory(run, setup, resume=resume)
    with directory.held():
        yield directory


def _directory(run: Path | RunDirectory | None, setup: Setup, *, resume: bool) -> RunDirectory:
    """Where this run is kept; it says first how the run was set up."""
    path = run.path if isinstance(run, RunDirectory) else run
    if resume and path is not None and (path / CONFIG).is_file():
        return RunDirectory(path)
    directory = run if isinstance(run, RunDirectory) else RunDirectory.create(run, setup.config.data.path.name)
    directory.write_config(setup.config)
    return directory


def _begin_embeddings(setup: Setup, folder: Path | None) -> None:
    """Give rows that are learnt their first values, and a folder for those beyond their memory."""
    if setup.embeddings is not None:
        setup.embeddings.begin(folder if folder is not None and folder.is_dir() else None)
