"""An oracle of MongoDB's numbers: int32, int64, double, decimal128, null, and no value at all.

It computes results of expressions, accumulators, comparisons and updates from the rules of the documentation, with Python's
exact integers, fractions and decimals. A result is a value, `MISSING`, or a `Refusal` with the code of the error.
"""

import math
import struct
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction

from bson import Decimal128, Int64
from bson.decimal128 import create_decimal128_context

MISSING = type("Missing", (), {"__repr__": lambda self: "MISSING"})()
INT, LONG, DOUBLE, DECIMAL = range(4)
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


class Refusal(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code

    def __eq__(self, other):
        return isinstance(other, Refusal) and self.code == other.code

    def __repr__(self):
        return f"error {self.code}"


def width(value):
    """The type of a number; `None` for anything else."""
    if isinstance(value, Int64):
        return LONG
    if isinstance(value, bool) or value is None or value is MISSING:
        return None
    return {int: INT, float: DOUBLE, Decimal128: DECIMAL}[type(value)]


def is_nullish(value):
    return value is None or value is MISSING


def fits_long(number):
    return -LONG_MAX - 1 <= number <= LONG_MAX


def int_or_long(number):
    return number if -INT_MAX - 1 <= number <= INT_MAX else Int64(number)


def identity(value):
    """The value to the last bit: type, sign of zero, exponent."""
    kind = width(value)
    if kind == DOUBLE:
        return ("double", "nan" if math.isnan(value) else struct.pack(">d", value))
    if kind == DECIMAL:
        return ("decimal", value.bid)
    return (kind, repr(value) if kind is None else int(value))


def decimally(operation):
    """Computes in the context of decimal128."""
    with localcontext(create_decimal128_context()) as context:
        context.traps = dict.fromkeys(context.traps, False)
        return operation(context)


def packed(decimal):
    return decimally(lambda _: Decimal128(decimal))


def to_decimal(value, digits=15):
    """A number as a decimal; a double with so many digits."""
    kind = width(value)
    if kind == DECIMAL:
        return value.to_decimal()
    if kind != DOUBLE:
        return Decimal(int(value))
    if value == 0 or not math.isfinite(value):
        return Decimal(repr(value).replace("0.0", "0"))
    if digits == 15:
        return Decimal(f"{value:.14e}")
    return decimally(lambda context: context.create_decimal(Decimal(value)))


def to_double(value):
    if width(value) == DECIMAL:
        return float(value.to_decimal())
    return float(value)


def is_nan(value):
    return {DOUBLE: lambda: math.isnan(value), DECIMAL: lambda: value.to_decimal().is_nan()}.get(
        width(value), lambda: False
    )()


# Order of values.


def rank(value):
    """No value, null, NaN, then the other numbers by their exact values."""
    if value is MISSING:
        return (0, 0)
    if value is None:
        return (1, 0)
    if is_nan(value):
        return (2, 0)
    kind = width(value)
    exact = value.to_decimal() if kind == DECIMAL else value
    if kind in (DOUBLE, DECIMAL) and exact in (math.inf, -math.inf):
        return (5, 0) if exact > 0 else (3, 0)
    return (4, Fraction(exact) if kind in (DOUBLE, DECIMAL) else Fraction(int(exact)))


def compare(left, right):
    left, right = rank(left), rank(right)
    return (left > right) - (left < right)


def expression_comparison(name, left, right):
    order = compare(left, right)
    return {
        "$cmp": order, "$eq": order == 0, "$ne": order != 0,
        "$gt": order > 0, "$gte": order >= 0, "$lt": order < 0, "$lte": order <= 0,
    }[name]


def matches(name, value, wanted):
    """Whether a field meets a condition of a filter: values compare within their class, null also stands for no value."""
    if name == "$ne":
        return not matches("$eq", value, wanted)
    or_equal = name in ("$eq", "$gte", "$lte")
    if is_nullish(value) or is_nullish(wanted):
        return or_equal and is_nullish(value) and is_nullish(wanted)
    if is_nan(value) or is_nan(wanted):
        return or_equal and is_nan(value) and is_nan(wanted)
    return expression_comparison(name, value, wanted)


# Arithmetic.


def add(*values):
    """The sum from left to right in the widest type so far."""
    widest, total = INT, 0
    for value in values:
        if is_nullish(value):
            return None
        before, widest = widest, max(widest, width(value))
        if widest == DECIMAL:
            if before == DOUBLE:
                total = to_decimal(total)
            elif before != DECIMAL:
                total = Decimal(total)
            total = decimally(lambda context, own=to_decimal(value), so_far=total: context.add(so_far, own))
        elif widest == DOUBLE:
            total = float(total) + to_double(value)
        else:
            if not fits_long(total + int(value)):
                widest, total = DOUBLE, float(total) + float(value)
            else:
                total += int(value)
    return {INT: int_or_long, LONG: Int64, DOUBLE: float, DECIMAL: packed}[widest](total)


def subtract(left, right):
    if is_nullish(left) or is_nullish(right):
        return None
    widest = max(width(left), width(right))
    if widest == DECIMAL:
        return packed(decimally(lambda context: context.subtract(to_decimal(left), to_decimal(right))))
    if widest == DOUBLE:
        return to_double(left) - to_double(right)
    difference = int(left) - int(right)
    if not fits_long(difference):
        return float(left) - float(right)
    return int_or_long(difference) if widest == INT else Int64(difference)


def multiply(*values):
    widest, whole, double, decimal = INT, 1, 1.0, None
    for value in values:
        if is_nullish(value):
            return None
        before, widest = widest, max(widest, width(value))
        if widest == DECIMAL:
            if before != DECIMAL:
                decimal = to_decimal(double) if before == DOUBLE else Decimal(whole)
            decimal = decimally(lambda context, own=to_decimal(value), so_far=decimal: context.multiply(so_far, own))
            continue
        double *= to_double(value)
        if widest != DOUBLE:
            whole *= int(value)
            if not fits_long(whole):
                widest = DOUBLE
    return {INT: lambda: int_or_long(whole), LONG: lambda: Int64(whole), DOUBLE: lambda: double,
            DECIMAL: lambda: packed(decimal)}[widest]()


def divide(left, right):
    if is_nullish(left) or is_nullish(right):
        return None
    if DECIMAL in (width(left), width(right)):
        if to_decimal(right) == 0:
            raise Refusal(2)
        return packed(decimally(lambda context: context.divide(to_decimal(left), to_decimal(right))))
    divisor = to_double(right)
    if divisor == 0:
        raise Refusal(2)
    return to_double(left) / divisor


def decimal_remainder(left, right):
    if left.is_nan() or right.is_nan() or left.is_infinite():
        return left if left.is_nan() else right if right.is_nan() else Decimal("NaN")
    if right.is_infinite():
        return left
    exponent = min(left.as_tuple().exponent, right.as_tuple().exponent)
    scaled = [abs(int(Fraction(value) / Fraction(10) ** exponent)) for value in (left, right)]
    digits = Decimal(scaled[0] % scaled[1]).as_tuple().digits
    return Decimal((left.as_tuple().sign, digits, exponent))


def modulo(left, right):
    if is_nullish(left) or is_nullish(right):
        return None
    if DECIMAL in (width(left), width(right)):
        if to_decimal(right) == 0:
            raise Refusal(5733415)
        return packed(decimal_remainder(to_decimal(left), to_decimal(right)))
    if to_double(right) == 0:
        raise Refusal(16610)
    if DOUBLE in (width(left), width(right)):
        left, right = to_double(left), to_double(right)
        return math.nan if math.isinf(left) else math.fmod(left, right)
    rest = (abs(int(left)) % abs(int(right))) * (-1 if left < 0 else 1)
    return rest if max(width(left), width(right)) == INT else Int64(rest)


def absolute(value):
    kind = width(value)
    if kind is None:
        return None
    if kind == DECIMAL:
        return packed(value.to_decimal().copy_abs())
    if kind == DOUBLE:
        return abs(value)
    if int(value) == -LONG_MAX - 1:
        raise Refusal(28680)
    return int_or_long(abs(value)) if kind == INT else Int64(abs(value))


def quantized(decimal, exponent, rounding):
    return decimally(lambda context: decimal.quantize(Decimal((0, (1,), exponent)), rounding=rounding, context=context))


def whole(value, rounding):
    kind = width(value)
    if kind is None:
        return None
    if kind == DECIMAL:
        decimal = value.to_decimal()
        return packed(Decimal("NaN") if decimal.is_infinite() else quantized(decimal, 0, rounding))
    if kind == DOUBLE and math.isfinite(value):
        rounded = math.ceil(value) if rounding == ROUND_CEILING else math.floor(value)
        return float(rounded) if rounded else math.copysign(0.0, value)
    return value


def to_place(value, place, rounding):
    kind = width(value)
    if kind is None:
        return None
    if kind in (INT, LONG):
        if place >= 0:
            return value
        rounded = int(quantized(Decimal(int(value)), -place, rounding))
        if not fits_long(rounded):
            raise Refusal(51080)
        return int_or_long(rounded) if kind == INT else Int64(rounded)
    decimal = to_decimal(value, digits=34)
    if decimal.is_infinite():
        return value
    rounded = quantized(decimal, -place, rounding)
    return packed(rounded) if kind == DECIMAL else float(rounded)


def power(base, exponent):
    """Of integers."""
    if base == 0 and exponent < 0:
        raise Refusal(28764)
    if exponent < 0 and abs(base) != 1:
        return math.pow(base, exponent)
    is_large = abs(base) > 1 and exponent > 64
    result = None if is_large else int(base) ** (abs(int(exponent)) if abs(base) == 1 else int(exponent))
    if result is None or not fits_long(result):
        try:
            return math.pow(base, exponent)
        except OverflowError:
            return -math.inf if base < 0 and exponent % 2 else math.inf
    return int_or_long(result) if width(base) == width(exponent) == INT else Int64(result)


EXPRESSIONS = {
    "$add": add, "$subtract": subtract, "$multiply": multiply, "$divide": divide, "$mod": modulo, "$abs": absolute,
    "$ceil": lambda value: whole(value, ROUND_CEILING), "$floor": lambda value: whole(value, ROUND_FLOOR),
    "$round": lambda value, place: to_place(value, place, ROUND_HALF_EVEN),
    "$trunc": lambda value, place: to_place(value, place, ROUND_DOWN), "$pow": power,
}


# Accumulators.


class Sum:
    """A sum of doubles with the rest that rounding cuts off (Dekker, Knuth), and of decimals beside it."""

    def __init__(self, values):
        self.nearest = self.rest = self.plain = 0.0
        self.integers, self.decimals, self.widest, self.count = 0, Decimal(0), INT, 0
        for value in values:
            if width(value) is not None:
                self.add(value)

    def add(self, value):
        kind = width(value)
        self.widest, self.count = max(self.widest, kind), self.count + 1
        if kind == DECIMAL:
            self.decimals = decimally(lambda context: context.add(self.decimals, value.to_decimal()))
        elif kind == DOUBLE:
            self.add_double(value)
        else:
            self.integers += int(value)
            high = abs(int(value)) >> 32 << 32
            high = high if value >= 0 else -high
            for part in [int(value) - high, high] if kind == LONG else [int(value)]:
                self.add_double(float(part))

    def add_double(self, value):
        self.plain += value
        part = value + self.rest
        self.rest -= part - value
        total = self.nearest + part
        moved = total - part
        self.rest += (self.nearest - moved) + (part - (total - moved))
        self.nearest = total

    def as_double(self):
        return self.plain if math.isnan(self.nearest) else self.nearest

    def as_decimal(self):
        def total(context):
            if not math.isfinite(self.nearest):
                return context.add(self.decimals, to_decimal(self.plain))
            doubles = context.add(to_decimal(self.nearest, digits=34), to_decimal(self.rest, digits=34))
            return context.add(self.decimals, doubles)

        return decimally(total)

    def total(self):
        if self.widest == DECIMAL:
            return packed(self.as_decimal())
        if self.widest == DOUBLE or not fits_long(self.integers):
            return self.as_double()
        return int_or_long(self.integers) if self.widest == INT else Int64(self.integers)

    def average(self):
        if not self.count:
            return None
        if self.widest == DECIMAL:
            return packed(decimally(lambda context: context.divide(self.as_decimal(), Decimal(self.count))))
        return self.as_double() / self.count


def extreme(values, sign):
    best = None
    for value in values:
        if not is_nullish(value) and (best is None or compare(value, best) * sign > 0):
            best = value
    return best


ACCUMULATORS = {
    "$sum": lambda values: Sum(values).total(), "$avg": lambda values: Sum(values).average(),
    "$min": lambda values: extreme(values, -1), "$max": lambda values: extreme(values, 1),
}


# Window functions over points (place, value).


def derivative(points):
    (left, low), (right, high) = points[0], points[-1]
    return None if len(points) < 2 else divide(subtract(high, low), subtract(right, left))


def integral(points):
    if any(is_nan(value) for _, value in points):
        return math.nan
    pairs = zip(points, points[1:])
    areas = [multiply(add(high, low), subtract(right, left)) for (left, low), (right, high) in pairs]
    return Sum([divide(area, 2.0) for area in areas]).total()


def moving_average(points, count=3):
    average = None
    for _, value in points:
        if average is None:
            average = value if width(value) == DECIMAL else to_double(value)
            continue
        own, rest = 2.0 / (count + 1), 1.0 - 2.0 / (count + 1)
        if DECIMAL in (width(value), width(average)):
            own = divide(packed(Decimal(2)), count + 1)
            rest = subtract(1, own)
        average = add(multiply(value, own), multiply(average, rest))
    return average


def covariance(points, is_sample):
    lefts, rights, products, infinite = [], [], [], []
    for left, right in points:
        odd = [value for value in (left, right) if not math.isfinite(to_double(value)) and is_special(value)]
        if odd:
            infinite.extend(to_double(value) for value in odd)
            continue
        mean = Sum(lefts).average()
        lefts.append(left)
        rights.append(right)
        products.append(multiply(subtract(left, mean), subtract(right, Sum(rights).average())))
    if infinite:
        return sum(infinite)
    if len(lefts) == 1 and not is_sample:
        return 0.0
    divisor = len(lefts) - is_sample
    return divide(Sum(products).total(), float(divisor)) if divisor > 0 else None


def is_special(value):
    """NaN or an infinity; a decimal above the greatest double is neither."""
    return not (value.to_decimal().is_finite() if width(value) == DECIMAL else math.isfinite(value))


WINDOWS = {
    "$derivative": derivative, "$integral": integral, "$expMovingAvg": moving_average,
    "$covariancePop": lambda points: covariance(points, False), "$covarianceSamp": lambda points: covariance(points, True),
}


# Updates.


def changed(old, new):
    """A computed number replaces another one of its type only where the two differ as numbers."""
    return old if width(old) == width(new) and not is_nan(new) and compare(old, new) == 0 else new


def increment(old, by):
    if old is MISSING:
        return by
    if width(old) is None:
        raise Refusal(14)
    widest = max(width(old), width(by))
    if widest == DECIMAL:
        return changed(old, packed(decimally(lambda context: context.add(to_decimal(old), to_decimal(by)))))
    if widest <= LONG and not fits_long(int(old) + int(by)):
        raise Refusal(2)
    return changed(old, add(old, by) if widest <= LONG else to_double(old) + to_double(by))


def scale(old, by):
    if old is None:
        raise Refusal(14)
    factor = 0 if old is MISSING else old
    widest = max(width(factor), width(by))
    if widest == DECIMAL:
        product = packed(decimally(lambda context: context.multiply(to_decimal(factor), to_decimal(by))))
    elif widest == DOUBLE:
        product = to_double(factor) * to_double(by)
    else:
        product = int(factor) * int(by)
        if not fits_long(product):
            raise Refusal(2)
        product = int_or_long(product) if widest == INT else Int64(product)
    return product if old is MISSING else changed(old, product)


def bounded(old, value, sign):
    return value if old is MISSING or compare(value, old) * sign > 0 else old


UPDATES = {
    "$inc": increment, "$mul": scale,
    "$min": lambda old, value: bounded(old, value, -1), "$max": lambda old, value: bounded(old, value, 1),
}


def outcome(function, *values):
    try:
        return function(*values)
    except Refusal as refusal:
        return refusal
