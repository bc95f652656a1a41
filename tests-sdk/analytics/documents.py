"""Documents of rows: the columns that an engine reads, with the values of `_rest` in their places.

Both sides of a comparison have a normal form: names in lower case, whole numbers as integers, and
neither null members nor empty objects.
"""

import json
import re

OWN = {"_rid", "_ts", "_etag", "_lsn", "_rest"}
ESCAPE = re.compile("_[xX]([0-9a-fA-F]{4})_")
FULL_FIDELITY = ["num", "int64", "string", "bool", "object", "array"]


def document_of(row, is_full_fidelity):
    """The document of a row."""
    value = full if is_full_fidelity else well_defined
    document = {name_of(column): value(found) for column, found in row.items() if column not in OWN | {"id"}}
    document["id"] = row["id"]
    for pointer, found in json.loads(row["_rest"] or "{}").items():
        put(document, [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]], found)
    return document


def name_of(column):
    return ESCAPE.sub(lambda match: chr(int(match[1], 16)), column)


def well_defined(value):
    if isinstance(value, dict):
        return {name_of(name): well_defined(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [well_defined(element) for element in value]
    return value


def full(value):
    """The one value of a struct with a member for each type."""
    found = [(name, member) for name, member in (value or {}).items() if member is not None]
    # Polars shows a struct that is NULL as one of NULLs.
    found = [(name, member) for name, member in found if name != "object" or any_of(member)] or found[:1]
    if not found or found[0][0] == "NULL":
        return None
    [(name, member)] = found
    assert name in FULL_FIDELITY, f"a value is of one type: {value}"
    if name == "object":
        return {name_of(name): full(value) for name, value in member.items()}
    return [full(element) for element in member] if name == "array" else member


def any_of(value):
    """Whether anything is in a value besides NULLs."""
    if isinstance(value, dict):
        return any(any_of(member) for member in value.values())
    return value is not None


def put(place, parts, value):
    for part, following in zip(parts, [*parts[1:], None]):
        key = int(part) if isinstance(place, list) else part
        if following is None:
            while isinstance(place, dict) and place.get(key) is not None:
                # Another spelling of the name has the column.
                key += "\0"
            place[key] = value
        else:
            if isinstance(place, dict):
                # The column may have the spelling of another document.
                spellings = [name for name in place if name.lower() == key.lower() and place[name] is not None]
                key = next(iter(spellings), key)
            inner = place[key] if isinstance(place, list) else place.get(key)
            if inner is None:
                inner = place[key] = {}
            place = inner


def normal(value):
    if isinstance(value, dict):
        members = [(name.rstrip("\0").lower(), normal(member)) for name, member in value.items()]
        return sorted(([name, member] for name, member in members if member is not None), key=json.dumps) or None
    if isinstance(value, (list, tuple)):
        return ["[", *(normal(element) for element in value)]
    if isinstance(value, float) and value.is_integer() and str(value) != "-0.0" and -(2**63) <= value < 2**63:
        return int(value)
    return value


def text_of(document):
    """The normal form of a document as text, in which true and 1 differ."""
    return json.dumps(normal(document), ensure_ascii=False)
