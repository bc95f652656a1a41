"""The programs of README.md and docs/connect.md, and the latter's lines about TLS, pasted as a newcomer would do it."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ["SHARDLAKE_OWN_DATA"]) / "../.."
README, CONNECT = "README.md", "docs/connect.md"
VERIFYING = ["from azure.cosmos.documents import SSLConfiguration", ', ssl_config=SSLConfiguration(), connection_verify="ca.pem")']
QUIET = "import urllib3; urllib3.disable_warnings()"
DELETE = "\nclient.delete_database('shop')\n"


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def snippet(name, endpoint):
    text = re.search(r"^```python\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)[1]
    assert "http://127.0.0.1:8081/" in text
    return text.replace("http://127.0.0.1:8081/", endpoint)


def run(text):
    # A newcomer has warnings switched on, unlike the suite.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=500, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


# check: documented-snippets
@pytest.mark.parametrize("name", [README, CONNECT])
def test_the_snippet_runs(name):
    done = run(snippet(name, os.environ["SHARDLAKE_HTTP"]) + DELETE)
    assert done.stdout == "{'id': '1', 'total': 42.5}\n", done.stdout
    assert done.stderr == ""


# check: tls-unverified
def test_one_line_quiets_the_warnings_over_tls():
    text = snippet(CONNECT, os.environ["SHARDLAKE_HTTPS"]) + DELETE
    assert "InsecureRequestWarning" in run(text).stderr
    assert QUIET in page(CONNECT)
    done = run(QUIET + "\n" + text)
    assert done.stderr == "" and "42.5" in done.stdout


# check: unknown-authority
def test_the_authority_is_verified_as_the_page_shows():
    assert all(part in page(CONNECT) for part in VERIFYING)
    given, argument = VERIFYING

    def verifying(certificate):
        text = snippet(CONNECT, os.environ["SHARDLAKE_HTTPS"])
        assert text.count('{KEY};")') == 1
        text = text.replace('{KEY};")', '{KEY};"' + argument.replace("ca.pem", certificate))
        return f"{given}\n{text}{DELETE}"

    assert run(verifying(os.environ["SHARDLAKE_CA_FILE"])).stderr == ""
    wrong = subprocess.run([sys.executable, "-c", verifying(os.devnull)], capture_output=True, timeout=500)
    assert wrong.returncode != 0, "it verifies"
