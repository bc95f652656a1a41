"""Makes the Python SDK's own tests run against a server on any port, and leaves out what is listed with a reason.

Loaded with `-p shardlake_plugin` before the tests' conftest. Three things, none of which touches the SDK itself:

* `test_config` takes exactly one address, with a fixed port, for the emulator, and asks a cloud for credentials otherwise. The module
  is loaded from its source with that one literal replaced by the address under test. It also looks only every 30 seconds whether a
  split is over; here it looks every second, because splits take less than that.
* `devtools_testutils`, which the tests import, belongs to the SDK's repository and is not published; the few names they use
  are defined here.
* Tests named in expected.toml for this file are skipped with their reason. An entry that matches no test is an error, so that the list
  cannot outlive its cause.
"""

import importlib.abc
import importlib.util
import os
import pathlib
import sys
import tomllib
import types

import pytest

EMULATOR = "https://localhost:8081/"
SPLIT_POLL = "SLEEP_TIME = 30 "


class _ConfigFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads test_config with the address under test in the place of the emulator's."""

    def find_spec(self, name, path=None, target=None):
        if name != "test_config":
            return None
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        source = pathlib.Path(os.environ["SHARDLAKE_SDK_TEST_FILES"], "test_config.py")
        text = source.read_text(encoding="utf-8")
        for literal in (EMULATOR, SPLIT_POLL):
            if text.count(literal) != 1:
                raise RuntimeError(f"{source} has {literal!r} {text.count(literal)} times, expected once")
        text = text.replace(EMULATOR, os.environ["ACCOUNT_HOST"]).replace(SPLIT_POLL, "SLEEP_TIME = 1 ")
        module.__file__ = str(source)
        code = compile(text, str(source), "exec")
        exec(code, module.__dict__)


def _no_credential(is_async=False, **_):
    raise RuntimeError("these tests run with the account key only")


def _define_test_utilities():
    helpers = types.ModuleType("devtools_testutils.helpers")
    helpers.is_live = lambda: getattr(helpers.is_live, "_cache", False)
    helpers.is_live._cache = False
    recorded = types.ModuleType("devtools_testutils.azure_recorded_testcase")
    recorded.get_credential = _no_credential
    package = types.ModuleType("devtools_testutils")
    package.__path__ = []
    package.helpers, package.azure_recorded_testcase = helpers, recorded
    sys.modules.update({module.__name__: module for module in (package, helpers, recorded)})


sys.meta_path.insert(0, _ConfigFinder())
_define_test_utilities()


def pytest_collection_modifyitems(config, items):
    with open(os.environ["SHARDLAKE_EXPECTED"], "rb") as file:
        expected = tomllib.load(file).get("skip", [])
    in_this_file = {os.path.basename(str(item.fspath)) for item in items}
    unmatched = []
    for entry in expected:
        if entry["file"] not in in_this_file:
            continue
        chosen = [item for item in items if _matches(item, entry)]
        for item in chosen:
            item.add_marker(pytest.mark.skip(reason=entry["reason"]))
        if not chosen:
            unmatched.append(f"{entry['file']}::{entry['test']}")
    if unmatched:
        raise pytest.UsageError(f"expected.toml names tests that are not there: {', '.join(unmatched)}")


def _matches(item, entry):
    # Parametrised tests have the name of their function in `originalname`; all their cases are meant.
    name = getattr(item, "originalname", None) or item.name
    return os.path.basename(str(item.fspath)) == entry["file"] and name == entry["test"]
