"""The README's snippet and its line about warnings, pasted as a newcomer would do it."""

import os
import pathlib
import re
import subprocess
import sys

README = pathlib.Path(os.environ["SHARDLAKE_OWN_DATA"]) / "../../README.md"
VERIFYING = ["from azure.cosmos.documents import SSLConfiguration", ', ssl_config=SSLConfiguration(), connection_verify="ca.pem")']
QUIET = "import urllib3; urllib3.disable_warnings()"
DELETE = "\nclient.delete_database('shop')\n"


def snippet(endpoint):
    text = re.search(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[1]
    assert "http://127.0.0.1:8081/" in text
    return text.replace("http://127.0.0.1:8081/", endpoint)


def run(text):
    # A newcomer has warnings switched on, unlike the suite.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=500, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


# check: documented-snippets
def test_the_snippet_runs():
    done = run(snippet(os.environ["SHARDLAKE_HTTP"]) + DELETE)
    assert done.stdout == "{'id': '1', 'total': 42.5}\n", done.stdout
    assert done.stderr == ""


# check: tls-unverified
def test_one_line_quiets_the_warnings_over_tls():
    text = snippet(os.environ["SHARDLAKE_HTTPS"]) + DELETE
    assert "InsecureRequestWarning" in run(text).stderr
    assert QUIET in README.read_text(encoding="utf-8")
    done = run(QUIET + "\n" + text)
    assert done.stderr == "" and "42.5" in done.stdout


# check: unknown-authority
def test_the_authority_is_verified_as_the_readme_says():
    readme = README.read_text(encoding="utf-8")
    assert all(part in readme for part in VERIFYING)
    given, argument = VERIFYING

    def verifying(certificate):
        text = snippet(os.environ["SHARDLAKE_HTTPS"]).replace(", KEY)", ", KEY" + argument.replace("ca.pem", certificate))
        return f"{given}\n{text}{DELETE}"

    assert run(verifying(os.environ["SHARDLAKE_CA_FILE"])).stderr == ""
    wrong = subprocess.run([sys.executable, "-c", verifying(os.devnull)], capture_output=True, timeout=500)
    assert wrong.returncode != 0, "it verifies"
