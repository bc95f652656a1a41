"""The vectors that tests of the server compare with are what their script computes, which has no code of the server."""

import os
import pathlib
import subprocess
import sys


def test_vectors_are_what_is_computed():
    script = pathlib.Path(os.environ["SHARDLAKE_ROOT"], "crates/testkit/vectors/make.py")
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
