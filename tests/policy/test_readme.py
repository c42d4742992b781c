"""The commands README.md shows work, one after another, in an empty directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.source import ROOT

README = ROOT / "README.md"

# Setting up is tested by doing it: make runs these tests, and installs what they import.
NOT_RUN = [re.compile(pattern) for pattern in (r"make\b", r"(python3? -m )?pip install\b", r"git clone\b")]


def fenced_commands(text: str) -> list[str]:
    """The commands in blocks fenced as bash; one that goes on with a backslash is one command."""
    commands: list[str] = []
    for block in re.findall(r"^```bash\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.sub(r"\s+#.*$", "", line.strip()).removeprefix("$ ")
            if command and not command.startswith("#"):
                commands.append(command)
    return commands


def test_commands_are_found() -> None:
    shown = ["make demo   # first", "# a remark", "", "$ starling inspect \\", "  graph"]
    text = "\n".join(["Words.", "```bash", *shown, "```", "```python", "x = 1", "```", "```bash", "a", "```", ""])
    assert fenced_commands(text) == ["make demo", "starling inspect    graph", "a"]


@pytest.mark.timeout(600)
def test_every_command_of_the_readme_works(tmp_path: Path) -> None:
    commands = fenced_commands(README.read_text())
    run = [command for command in commands if not any(pattern.match(command) for pattern in NOT_RUN)]
    if not run:
        pytest.skip("README.md shows no commands but those that set up")
    script = "\n".join(["set -euo pipefail", "trap 'echo \"this failed: $BASH_COMMAND\" >&2' ERR", *run])
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=580, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
