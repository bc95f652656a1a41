"""The demo's access patterns, each checked by the command that a newcomer would run."""

import os
import subprocess
import sys


def test_every_access_pattern_of_the_demo_is_answered_rightly():
    # The server takes every variable of its own prefix for a setting.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHARDLAKE_")}
    command = [os.environ["DEMO_BINARY"], "demo", "webstore", "--check", "--customers", "60", "--python", sys.executable]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left out" not in done.stdout, done.stdout
    # Eleven access patterns, and six joins over the tables.
    assert done.stdout.count("ok   ") == 17, done.stdout
    assert "10 rows, 5 partitions" in done.stdout
