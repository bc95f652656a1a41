"""Numbers of all types against an oracle: expressions, accumulators, comparisons, filters and updates of random operands.

`NUMBER_CASES` sets the count of cases, 20,000 for a long run. The seed is fixed.
"""

import os
import random
import unittest

from bson import Decimal128, Int64
from number_oracle import (
    ACCUMULATORS, EXPRESSIONS, MISSING, UPDATES, WINDOWS, Refusal, compare, expression_comparison, identity, matches, outcome,
)
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, OperationFailure
from support import WithDatabase

CASES = int(os.environ.get("NUMBER_CASES", "4000"))
BATCH = 100

INTS = [0, 1, -1, 2, 7, -10, 100, 2**31 - 1, -(2**31)]
LONGS = [0, 1, -3, 64, 2**31, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
DOUBLES = [0.0, -0.0, 1.0, -1.0, 0.1, 0.29, 0.5, -2.5, 1 / 3, 2.0**31, 2.0**53, 2.0**63, -(2.0**63), 1e16, 1e300, -1.7e308, 5e-324]
DOUBLES += [float("inf"), float("-inf"), float("nan")]
DECIMALS = ["0", "-0", "0E+3", "0.00", "1", "1.0", "1.00", "-1", "2.5", "-7.25", "0.1", "3E+2", "1E+20", "1E-20", "123456789.123456789"]
DECIMALS += ["9007199254740993", "9223372036854775807", "9.999999999999999999999999999999999E+6144", "1E-6176", "-1E+6144"]
DECIMALS += ["Infinity", "-Infinity", "NaN", "0.3333333333333333333333333333333333"]
KINDS = ["int", "long", "double", "decimal"]
COMPARISONS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]


def number(chance, kind=None):
    kind = kind or chance.choice(KINDS)
    known = {"int": INTS, "long": LONGS, "double": DOUBLES, "decimal": DECIMALS}[kind]
    if chance.random() < 0.6:
        value = chance.choice(known)
    elif kind in ("int", "long"):
        value = chance.randint(-(10 ** chance.randint(1, 18 if kind == "long" else 9)), 10**9)
    elif kind == "double":
        value = chance.uniform(-1, 1) * 10 ** chance.randint(-12, 18)
    else:
        value = f"{chance.randint(-(10**chance.randint(1, 33)), 10**9)}E{chance.randint(-30, 30)}"
    return {"int": int, "long": Int64, "double": float, "decimal": Decimal128}[kind](value)


def operand(chance):
    """A number, or now and then null or no value."""
    luck = chance.random()
    return None if luck < 0.05 else MISSING if luck < 0.1 else number(chance)


def count_of(name, chance):
    if name in ("$add", "$multiply"):
        return chance.randint(1, 4)
    return 1 if name in ("$abs", "$ceil", "$floor") else 2


def operands_of(name, chance):
    values = [operand(chance) for _ in range(count_of(name, chance))]
    if name in ("$round", "$trunc"):
        values[1] = chance.randint(-5, 12)
    elif name == "$pow":
        values = [number(chance, chance.choice(KINDS[:2])), chance.choice([0, 1, 2, 3, -1, -2, 31, 62, 63, Int64(2)])]
    return values


def present(fields):
    return {name: value for name, value in fields.items() if value is not MISSING}


class Numbers(WithDatabase):
    def setUp(self):
        super().setUp()
        self.chance = random.Random(20261129)
        self.differences = []

    def check(self, asked, found, wanted):
        same = found == wanted if isinstance(found, Refusal) or isinstance(wanted, Refusal) else identity(found) == identity(wanted)
        if not same:
            self.differences.append(f"{asked}: {found!r}, wanted {wanted!r}")

    def tearDown(self):
        super().tearDown()
        shown = "\n".join(self.differences[:40])
        self.assertEqual(len(self.differences), 0, f"{len(self.differences)} differences\n{shown}")

    def batches(self, share):
        count = max(1, CASES * share // 100 // BATCH)
        return range(count)

    def evaluated(self, fields, shown):
        """The values of expressions over a document, or an error."""
        pipeline = [{"$documents": [fields]}, {"$project": shown}]
        try:
            return next(iter(self.db.aggregate(pipeline)))
        except OperationFailure as error:
            return Refusal(error.code)

    def compare_expressions(self, cases):
        """Each case is an expression of fields, its operands, and the wanted result. Errors end a pipeline, so they run alone."""
        fields, shown = {}, {}
        for at, (expression, values, wanted) in enumerate(cases):
            own = {f"f{at}_{place}": value for place, value in enumerate(values)}
            if isinstance(wanted, Refusal):
                found = self.evaluated(present(own), {"v": expression(at)})
                self.check((expression(at), values), found, wanted)
                continue
            fields.update(present(own))
            shown[f"v{at}"] = expression(at)
        found = self.evaluated(fields, shown)
        for at, (expression, values, wanted) in enumerate(cases):
            if f"v{at}" in shown:
                own = found
                if isinstance(found, Refusal):
                    own = self.evaluated(fields, {f"v{at}": expression(at)})
                result = own if isinstance(own, Refusal) else own.get(f"v{at}", MISSING)
                self.check((expression(at), values), result, wanted)

    def expression(self, name, count):
        return lambda at: {name: [f"$f{at}_{place}" for place in range(count)]}

    def test_expressions(self):
        for _ in self.batches(45):
            cases = []
            for _ in range(BATCH):
                name = self.chance.choice(list(EXPRESSIONS))
                values = operands_of(name, self.chance)
                cases.append((self.expression(name, len(values)), values, outcome(EXPRESSIONS[name], *values)))
            self.compare_expressions(cases)

    def test_comparisons(self):
        for _ in self.batches(10):
            cases = []
            for _ in range(BATCH):
                name, values = self.chance.choice([*COMPARISONS, "$cmp"]), [operand(self.chance) for _ in range(2)]
                cases.append((self.expression(name, 2), values, expression_comparison(name, *values)))
            self.compare_expressions(cases)

    def test_accumulators_in_groups_and_in_expressions(self):
        for _ in self.batches(15):
            groups = [[operand(self.chance) for _ in range(self.chance.randint(1, 6))] for _ in range(BATCH)]
            documents = [present({"g": at, "v": value}) for at, group in enumerate(groups) for value in group]
            outputs = {name[1:]: {name: "$v"} for name in ACCUMULATORS}
            found = {row["_id"]: row for row in self.db.aggregate([{"$documents": documents}, {"$group": {"_id": "$g", **outputs}}])}
            cases = []
            for at, group in enumerate(groups):
                for name, function in ACCUMULATORS.items():
                    wanted = outcome(function, group)
                    self.check((name, group), found[at][name[1:]], wanted)
                    cases.append((self.expression(name, len(group)), group, wanted))
            self.compare_expressions(self.chance.sample(cases, BATCH))

    def test_window_functions(self):
        whole = {"documents": ["unbounded", "unbounded"]}
        output = {name[1:]: {name: {"input": "$v"}, "window": whole} for name in ("$derivative", "$integral")}
        output |= {name[1:]: {name: ["$t", "$v"], "window": whole} for name in ("$covariancePop", "$covarianceSamp")}
        output["expMovingAvg"] = {"$expMovingAvg": {"input": "$v", "N": 3}}
        for _ in self.batches(5):
            partitions = []
            for _ in range(BATCH):
                places = range(self.chance.randint(2, 5))
                kinds = self.chance.choice([["int", "long", "double"], ["decimal"], KINDS])
                partitions.append([(place * 2, number(self.chance, self.chance.choice(kinds))) for place in places])
            documents = [{"p": at, "t": t, "v": v} for at, points in enumerate(partitions) for t, v in points]
            stage = {"$setWindowFields": {"partitionBy": "$p", "sortBy": {"t": 1}, "output": output}}
            last = {row["p"]: row for row in self.db.aggregate([{"$documents": documents}, stage])}
            for at, points in enumerate(partitions):
                for name, function in WINDOWS.items():
                    self.check((name, points), last[at][name[1:]], outcome(function, points))

    def test_filters_and_sorts(self):
        values = [operand(self.chance) for _ in range(300)]
        self.db.c.insert_many([present({"_id": at, "v": value}) for at, value in enumerate(values)])
        self.db.c.create_index("v")
        for _ in range(max(10, CASES * 10 // 100)):
            name, wanted = self.chance.choice(COMPARISONS), self.chance.choice([None, *(number(self.chance) for _ in range(9))])
            hint = self.chance.choice([None, [("v", 1)], [("$natural", 1)]])
            found = {row["_id"] for row in self.db.c.find({"v": {name: wanted}}, {"_id": 1}, hint=hint)}
            expected = {at for at, value in enumerate(values) if matches(name, value, wanted)}
            if found != expected:
                odd = [values[at] for at in sorted(found ^ expected)[:5]]
                self.differences.append(f"filter {name} {wanted!r}, hint {hint}: {odd}")
        order = [values[row["_id"]] for row in self.db.c.find({}, {"_id": 1}).sort("v", 1)]
        for left, right in zip(order, order[1:]):
            left, right = (None if value is MISSING else value for value in (left, right))
            if compare(left, right) > 0:
                self.differences.append(f"sort: {left!r} before {right!r}")

    def test_updates(self):
        for _ in self.batches(20):
            self.db.u.drop()
            cases = []
            for at in range(BATCH):
                name, old, by = self.chance.choice(list(UPDATES)), operand(self.chance), number(self.chance)
                cases.append((name, old, by, outcome(UPDATES[name], old, by)))
            self.db.u.insert_many([present({"_id": at, "v": old}) for at, (_, old, _, _) in enumerate(cases)])
            requests = [UpdateOne({"_id": at}, {name: {"v": by}}) for at, (name, _, by, _) in enumerate(cases)]
            try:
                refused, modified = {}, self.db.u.bulk_write(requests, ordered=False).modified_count
            except BulkWriteError as error:
                refused = {one["index"]: Refusal(one["code"]) for one in error.details["writeErrors"]}
                modified = error.details["nModified"]
            stored = {row["_id"]: row.get("v", MISSING) for row in self.db.u.find()}
            expected = 0
            for at, (name, old, by, wanted) in enumerate(cases):
                self.check((name, old, by), refused.get(at, stored[at]), wanted)
                expected += not isinstance(wanted, Refusal) and identity(old) != identity(wanted)
            if modified != expected:
                self.differences.append(f"modified {modified} documents, wanted {expected}")
