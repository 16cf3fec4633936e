"""The page of scale does what it says: its first example, with fewer items."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_example_runs_from_labels_to_a_table(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    section = re.search(r"^## In two minutes\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    assert section is not None
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
    said = ""
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", section[1], re.DOTALL | re.MULTILINE):
        block = block.replace("200_000", "5_000").replace("1_000", "50")
        command = [sys.executable, "-c", block] if kind == "python" else ["sh", "-ec", block]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said = done.stdout
    rows = [re.findall(r"[\w.]+", line) for line in said.splitlines() if re.match(r"│ (cat|dog|fox|hen) ", line)]
    assert [row[0] for row in rows] == ["cat", "dog", "fox", "hen"]
    assert sum(int(row[1]) for row in rows) == 5_000
    for _, _, expected, found in rows:
        assert abs(float(expected) - float(found)) < 0.05
        assert float(found) > 0.9
