"""Makes the data sets in this directory: invented, and full of what a store may get wrong.

    python3 tests-sdk/data/make.py

`stock.json`: articles with nested lists, numbers of every spelling that JSON readers keep, texts of many scripts, empty values, and some
without the property that is their partition key. `lakes.json`: places with coordinates, whose partition key has spaces and few values.
Choices come from a seed, so that the files are the same each time.
"""

import json
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
NUMBERS = [0, -1, 1, 0.5, -0.25, 1e-7, 1.5e300, 5e-324, 4294967296, 9007199254740991, -9007199254740991, 123456.789]
TEXTS = ["", " ", "plain", "Ärger & Öl", "ключ", "鍵と湖", "🦀🌊", "a\"quoted\"b", "back\\slash", "line\nbreak\ttab", "\u2028\u2029", "x" * 3000, "#?/%"]
VALUES = [None, True, False, [], {}, [[], [None]], {"": ""}, {"a.b": {"$c": [1, {"d": False}]}}]
COUNTRIES = ["Seenland", "Nord Fjordania", "Republic of Ponds", "Îles-du-Lac", "湖国"]


def stock(choose):
    articles = []
    for number in range(120):
        article = {
            "id": f"article {number:03}" if number % 7 else f"Ö-{number}",
            "category": choose.choice(["boats", "nets", "ropes and knots", "лодки"]),
            "name": choose.choice(TEXTS),
            "price": choose.choice(NUMBERS),
            "tags": [{"id": choose.randrange(1000), "name": choose.choice(TEXTS)} for _ in range(choose.randrange(5))],
            "more": choose.choice(VALUES),
        }
        if number % 15 == 3:
            del article["category"]
        if number % 4 == 0:
            article = dict(reversed(article.items()))
        articles.append(article)
    return articles


def lakes(choose):
    return [
        {
            "Lake Name": f"Lake {number} {choose.choice(['of Reeds', 'Øst', 'Большое', '大湖'])}",
            "Country": choose.choice(COUNTRIES),
            "Location": {"type": "Point", "coordinates": [choose.randrange(-1800, 1800) / 10, choose.randrange(-900, 900) / 10]},
            "Depth": choose.choice(NUMBERS),
            "Last Survey": choose.choice([None, "Unknown", "2026-11-02T08:00:00Z"]),
            "id": f"{choose.getrandbits(128):032x}",
        }
        for number in range(200)
    ]


def main():
    for name, make in (("stock", stock), ("lakes", lakes)):
        lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in make(random.Random(name)))
        (HERE / f"{name}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
