"""The program of docs/connect.md for PyMongo, pasted as a newcomer would do it."""

import pathlib
import re
import subprocess
import sys
import unittest

from support import URI, client, database_name

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/connect.md"
ADDRESS = "mongodb://127.0.0.1:27017/"


class Snippets(unittest.TestCase):
    def test_the_program_of_the_page_runs(self):
        program = re.search(r"^```python\n(from pymongo.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[1]
        database = database_name()
        self.assertEqual((program.count(ADDRESS), program.count(").shop.")), (1, 1))
        program = program.replace(ADDRESS, URI).replace(").shop.", f").{database}.")
        try:
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=500)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "{'customer': 'ada', 'total': 12}\n", ""))
        finally:
            with client() as connected:
                connected.drop_database(database)
