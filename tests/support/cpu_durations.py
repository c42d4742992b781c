"""What each test costs in processor time, child processes included: ``pytest -p tests.support.cpu_durations tests/launch``.

On a busy machine ``--durations`` tells how long others kept the cores; this tells what a test itself took. Workers that a fork
server started are not its children and are left out.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Generator

import pytest

_SHOWN = 25
_seconds: Counter[str] = Counter()


def _spent() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = _spent()
    result = yield
    _seconds[item.nodeid] += _spent() - before
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    files: Counter[str] = Counter()
    for test, seconds in _seconds.items():
        files[test.split("::")[0]] += seconds
    for title, counts in (("files", files), ("tests", _seconds)):
        terminalreporter.section(f"processor seconds of {title}")
        for name, seconds in counts.most_common(_SHOWN):
            terminalreporter.write_line(f"{seconds:8.2f}  {name}")
