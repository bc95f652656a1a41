"""Checks a bill of materials against the strict JSON schema of its version of CycloneDX: VERSION FILE."""

import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

version, path = sys.argv[1:]
validator = JsonStrictValidator(SchemaVersion.from_version(version))
text = Path(path).read_text()
fault = validator.validate_str(text)
if fault is not None:
    sys.exit(f"{path}: {fault}")
# A validator that accepts everything would prove nothing.
assert validator.validate_str(text.replace('"CycloneDX"', '"other"')) is not None
print(f"{path} follows CycloneDX {version}")
