from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from starling.launch.desk import Desk, Status
from starling.launch.reports import Report

REPORT = Report(rank=1, kind="raised", phase="epoch 1", cause="ValueError: «no»", moment=2.0, trace="Traceback\n  …", peer=None)


def test_a_phase_can_be_read_by_others_at_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.status(3) is None
    phase = desk.phase(3)
    assert Desk(tmp_path).status(3) == Status(os.getpid(), "starting")
    for name in ("epoch 1000, step 1000, a long phase", "short", "x" * 10_000, "ü" * 10_000, "leaving"):
        phase.enter(name)
        assert phase.name == name
        status = Desk(tmp_path).status(3)
        assert status is not None
        assert status.phase
        assert name.startswith(status.phase)
    assert status == Status(os.getpid(), "leaving")


def test_reports_come_back_in_order_of_time(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert not desk.has_reports()
    assert desk.reports() == []
    early = replace(REPORT, rank=2, moment=1.0, kind="lost", peer=1)
    desk.file_report(REPORT, by="1")
    desk.file_report(early, by="2")
    desk.file_report(replace(REPORT, kind="silent", moment=3.0), by="2")
    assert desk.has_reports()
    assert [report.moment for report in desk.reports()] == [1.0, 2.0, 3.0]
    assert desk.reports()[:2] == [early, REPORT]
    assert not list(tmp_path.glob(".*"))
