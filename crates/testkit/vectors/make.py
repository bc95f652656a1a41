"""Computes the vectors in this directory, without any code of the server.

    python3 crates/testkit/vectors/make.py            # writes the files
    python3 crates/testkit/vectors/make.py --check    # says whether they are what would be written

The values are of our own choosing; the algorithms are the published ones: MurmurHash3 (x86 32 bits, x64 128 bits), the effective
partition keys and the DISTINCT hash of the SDKs' sources, and HMAC-SHA256 of the documented string to sign. A second
implementation in another language is what makes a vector worth something: it shares no mistake with the first.
"""

import base64
import hashlib
import hmac
import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
MASK32, MASK64, MASK128 = (1 << 32) - 1, (1 << 64) - 1, (1 << 128) - 1
UNDEFINED = {"$undefined": True}

# The hash functions.


def rotate(value, by, bits):
    return (value << by | value >> (bits - by)) & ((1 << bits) - 1)


def murmur3_32(data, seed=0):
    def scrambled(block):
        return rotate(block * 0xCC9E2D51 & MASK32, 15, 32) * 0x1B873593 & MASK32

    state, whole = seed, len(data) // 4 * 4
    for (block,) in struct.iter_unpack("<I", data[:whole]):
        state = (rotate(state ^ scrambled(block), 13, 32) * 5 + 0xE6546B64) & MASK32
    if data[whole:]:
        state ^= scrambled(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & MASK32
    state = (state ^ state >> 13) * 0xC2B2AE35 & MASK32
    return state ^ state >> 16


def murmur3_128(data, seed=0):
    """As one number, whose low half is the first of the two results."""
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F

    def first(block):
        return rotate(block * c1 & MASK64, 31, 64) * c2 & MASK64

    def second(block):
        return rotate(block * c2 & MASK64, 33, 64) * c1 & MASK64

    def final(value):
        value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & MASK64
        value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & MASK64
        return value ^ value >> 33

    low, high = seed & MASK64, seed >> 64
    whole = len(data) // 16 * 16
    for one, two in struct.iter_unpack("<QQ", data[:whole]):
        low = (rotate(low ^ first(one), 27, 64) + high & MASK64) * 5 + 0x52DCE729 & MASK64
        high = (rotate(high ^ second(two), 31, 64) + low & MASK64) * 5 + 0x38495AB5 & MASK64
    rest = data[whole:]
    if len(rest) > 8:
        high ^= second(int.from_bytes(rest[8:], "little"))
    if rest:
        low ^= first(int.from_bytes(rest[:8], "little"))
    low, high = low ^ len(data), high ^ len(data)
    low = low + high & MASK64
    high = high + low & MASK64
    low, high = final(low), final(high)
    low = low + high & MASK64
    high = high + low & MASK64
    return high << 64 | low


# Effective partition keys.


def for_hashing(component, end_of_text):
    if component == UNDEFINED:
        return b"\x00"
    if component is None:
        return b"\x01"
    if isinstance(component, bool):
        return b"\x03" if component else b"\x02"
    if isinstance(component, str):
        return b"\x08" + component.encode() + end_of_text
    return b"\x05" + struct.pack("<d", component)


def version_2(components):
    data = b"".join(for_hashing(component, b"\xff") for component in components)
    # Most significant byte first, without its two highest bits.
    return (murmur3_128(data) & MASK128 >> 2).to_bytes(16, "big").hex().upper()


def multi_hash(components):
    return "".join(version_2([component]) for component in components)


def ordered_number(value):
    """A double as bytes in the order of numbers: eight bits, then seven in each byte, whose lowest says whether more follow."""
    bits = struct.unpack(">Q", struct.pack(">d", value))[0]
    bits = bits ^ 1 << 63 if bits < 1 << 63 else -bits & MASK64
    out = [bits >> 56]
    bits = bits << 8 & MASK64
    groups = [bits >> 56 & 0xFE]
    while bits := bits << 7 & MASK64:
        groups.append(bits >> 56 & 0xFE)
    out += [group | 1 for group in groups[:-1]] + groups[-1:]
    return bytes([5, *out])


def ordered(component):
    """What version 1 appends to the hash: texts end after 101 bytes, each byte one higher, so that zero can be their end."""
    if isinstance(component, str):
        raw = component.encode()
        shown = bytes(byte + 1 if byte < 0xFF else byte for byte in raw[:101])
        return b"\x08" + shown + (b"" if len(raw) > 100 else b"\x00")
    if component == UNDEFINED or component is None or isinstance(component, bool):
        return for_hashing(component, b"")
    return ordered_number(component)


def cut(component):
    """Version 1 looks at the first hundred UTF-16 units of a text."""
    if not isinstance(component, str):
        return component
    return component.encode("utf-16-le")[:200].decode("utf-16-le")


def version_1(components):
    components = [cut(component) for component in components]
    data = b"".join(for_hashing(component, b"\x00") for component in components)
    parts = ordered_number(float(murmur3_32(data))) + b"".join(ordered(component) for component in components)
    return parts.hex().upper()


KEYS = [
    "x", "shard", "lake", "Ärger", "ключ", "鍵", "🦀🌊", " leading", "trailing ", "UPPER lower", "a/b\\c", "\t\n", "\x7f\x80\u07ff\u0800",
    "fifteen letters", "sixteen letters!", "seventeen letters", "null", "true", "0", "\ud7ff\ue000", "0123456789" * 10, "0123456789" * 10 + "0",
    "0123456789" * 30, "ü" * 50, "ü" * 51, "ü" * 100, "ü" * 101, "𝄞" * 50, "𝄞" * 51, 0.0, 2.0, -2.0, 7.0, 10.0, 255.0, 256.0, 1000.0, -1000.0, 0.5, -0.5, 0.3,
    1.5e300, -1.5e300, 1e-300, 2.2250738585072014e-308, 1.1125369292536007e-308, 9007199254740992.0, -9007199254740991.0,
    4294967295.0, 123456.789, True, False, None, UNDEFINED,
]
SEVERAL = [
    ["lake", 1.0], ["lake", "1"], [1.0, "lake"], ["lake", None], [None, None], [True, False], [UNDEFINED, UNDEFINED], ["lake", UNDEFINED],
    ["tenant", "user", "session"], ["tenant", "user"], ["tenant"], ["tenant", "user", 3.0], ["ключ", "鍵", "🦀"], ["", "x", ""],
]


def partition_keys():
    single = [{"key": [key], "v1": version_1([key]), "v2": version_2([key]), "multiHash": multi_hash([key])} for key in KEYS]
    several = [{"key": key, "v2": version_2(key), "multiHash": multi_hash(key)} for key in SEVERAL]
    return single + several


# The DISTINCT hash.

SEEDS = {
    name: high << 64 | low
    for name, low, high in [
        ("root", 0xBFC2359EAFC0E2B7, 0x8846E00284C4CF1F),
        ("null", 0x1380F68BB3B0CFE4, 0x156C918BF564EE48),
        ("false", 0xC1BE517FE893B40C, 0xE9FC8A4C531CD0DD),
        ("true", 0xF86D4ABF9A412E74, 0x788488365C8A985D),
        ("number", 0x2400E8B894CE9C2A, 0x790BE1EABD7B9481),
        ("string", 0x61F53F0A44204CFB, 0x09481BE8EF4B56DD),
        ("array", 0xFA573B014C4DC18E, 0xA014512C858EB115),
        ("object", 0x77B285AC511AEF30, 0x3DCF187245822449),
        ("element", 0xFE057204216DB999, 0x5B1CC3178BD9C593),
        ("member", 0xC915DDE058492A8A, 0x7C8BE2EBA72E4634),
    ]
}


def hashed(number, seed):
    return murmur3_128(number.to_bytes(16, "little"), seed)


def double_with_16_bits(value):
    """A number as a double of 52 bits, and what an integer has beyond them."""
    if isinstance(value, float):
        return struct.pack("<d", value + 0.0) + b"\0\0"
    magnitude = abs(value)
    digits = bin(magnitude)[2:]
    fraction = digits[1:].rstrip("0")
    if len(digits) <= 53 or len(fraction) <= 52 or value == -(1 << 63):
        return struct.pack("<d", float(value)) + b"\0\0"
    fraction = digits[1:].ljust(62, "0")
    bits = (value < 0) << 63 | len(digits) + 1022 << 52 | int(fraction[:52], 2)
    return struct.pack("<QH", bits, int(fraction[52:62], 2) << 6)


def distinct(value, seed=SEEDS["root"]):
    if value is None or isinstance(value, bool):
        return hashed(SEEDS[json.dumps(value)], seed)
    if isinstance(value, (int, float)):
        return murmur3_128(double_with_16_bits(value), hashed(SEEDS["number"], seed))
    if isinstance(value, str):
        return murmur3_128(value.encode(), hashed(SEEDS["string"], seed))
    if isinstance(value, list):
        result = hashed(SEEDS["array"], seed)
        for position, element in enumerate(value):
            result = hashed(distinct(element, SEEDS["element"] + position & MASK128), result)
        return result
    result, together = hashed(SEEDS["object"], seed), 0
    for name, member in value.items():
        together ^= distinct(member, distinct(name, SEEDS["member"]))
    return hashed(together, result) if together else result


VALUES = [
    None, True, False, 0, -0.0, 1, -1, 2.5, -2.5, 0.1, 1e100, 5e-324, 9007199254740991, 9007199254740993, -9007199254740993, 4611686018427387905,
    9223372036854775807, -9223372036854775808, "", "a", "lake", "ключ", "鍵🦀", "sixteen letters!", "more than sixteen letters", [], [None], [1, 2],
    [2, 1], [[]], [[], []], [1, [2, [3]]], {}, {"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": {"a": {"a": None}}}, {"": ""},
    {"list": [1, {"b": [True, "x"]}], "n": -7.25}, [{"a": 1}, {"a": 1}],
]


def distinct_hashes():
    def shown(value):
        return "-".join(f"{byte:02X}" for byte in distinct(value).to_bytes(16, "big"))

    # As text, because not every reader of JSON keeps large integers and the sign of zero.
    return [{"value": json.dumps(value, ensure_ascii=False), "hash": shown(value)} for value in VALUES]


# Signatures.

EMULATOR_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
REQUESTS = [
    ("GET", "", "", "Mon, 02 Nov 2026 08:00:00 GMT"),
    ("GET", "dbs", "", "Mon, 02 Nov 2026 08:00:00 GMT"),
    ("POST", "dbs", "", "Mon, 02 Nov 2026 08:00:01 GMT"),
    ("DELETE", "dbs", "dbs/Shop", "Tue, 03 Nov 2026 23:59:59 GMT"),
    ("POST", "colls", "dbs/Shop", "Tue, 03 Nov 2026 23:59:59 GMT"),
    ("PUT", "colls", "dbs/Shop/colls/Orders 2026", "Tue, 03 Nov 2026 23:59:59 GMT"),
    ("POST", "docs", "dbs/Shop/colls/Orders", "Sun, 01 Jan 2006 00:00:00 GMT"),
    ("PATCH", "docs", "dbs/Shop/colls/Orders/docs/größe-🦀", "Sun, 01 Jan 2006 00:00:00 GMT"),
    ("HEAD", "docs", "dbs/Shop/colls/Orders/docs/50%25", "Sun, 01 Jan 2006 00:00:00 GMT"),
    ("GET", "pkranges", "dbs/Shop/colls/Orders", "Sun, 01 Jan 2006 00:00:00 GMT"),
    ("POST", "sprocs", "dbs/Shop/colls/Orders/sprocs/Move", "Sun, 01 Jan 2006 00:00:00 GMT"),
    ("GET", "users", "dbs/Shop/users/ann", "Sun, 01 Jan 2006 00:00:00 GMT"),
    ("GET", "permissions", "dbs/Shop/users/ann/permissions/read", "Sun, 01 Jan 2006 00:00:00 GMT"),
    ("PUT", "offers", "x7ke", "Sun, 01 Jan 2006 00:00:00 GMT"),
]


def signatures():
    def token(verb, kind, link, date):
        to_sign = f"{verb.lower()}\n{kind.lower()}\n{link}\n{date.lower()}\n\n"
        digest = hmac.new(base64.b64decode(EMULATOR_KEY), to_sign.encode(), hashlib.sha256).digest()
        return f"type=master&ver=1.0&sig={base64.b64encode(digest).decode()}"

    names = ("verb", "resourceType", "resourceId", "date")
    return [{**dict(zip(names, request)), "token": token(*request)} for request in REQUESTS]


def main():
    wrong = []
    for name, rows in [
        ("partition_keys", partition_keys()),
        ("distinct_hashes", distinct_hashes()),
        ("signatures", signatures()),
    ]:
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        path, text = HERE / f"{name}.json", f"[\n{lines}\n]\n"
        if sys.argv[1:] != ["--check"]:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            wrong.append(path.name)
    sys.exit(f"not what is computed: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()
