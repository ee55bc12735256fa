"""Damage that knows what it damages: fields, numbers, lines, trees, headers."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

LONGEST = 20_000
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_FIELD = re.compile(r"[^\s:=,|;\"'{}\[\]<>]+")
# Characters and pieces that end, nest, count or repeat what parsers look for.
_PIECES = (
    *("", "\n", "\n\n", "\r\n", "\t", " ", "\0", "\x1b[31m", "\u00b2", "\ufffd", "\u2028"),
    *("|", ":", "=", ",", ";", "/", ".", "-", '"', "'", "{", "}", "[", "]", "<", ">", "#", "\\"),
    *("\u0663", "\u202e", "\u00df", "\U0001f600", "&", "*", "!", "%", "@", "$(id)", "{{ 7*7 }}"),
    *("N/A", "None", "null", "true", "..", "a" * 500, "<![CDATA[", "<!DOCTYPE x", "---\n", "? "),
)
_NUMBERS = (
    *("0", "-1", "-0", "1", "9" * 25, "9" * 5000, "1e999", "nan", "inf", "0x", "1.", ".1", "00"),
    *("2147483648", "18446744073709551616", "4294967295", "1" + "0" * 400, "\u0664\u0662", "1_0"),
)
_NESTS = (("[", "]"), ("{", "}"), ("(", ")"), ('{"a":', "}"), ("<a>", "</a>"), ("- ", ""))
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, -0.5, 1e308, "", "x", "a" * 3000),
    *("\0", "\x1b[31m", "\ud7ff", "../../etc/passwd", "/dev/zero", "9" * 5000, "1,2", "1.2.3"),
    *([], {}, [[]], [None], {"": None}, [1, "x", {}], {"a": {"b": [1]}}),
)
_HUGE = (0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 1 << 40)


def damaged_text(text: str, other: str, rng: random.Random) -> str:
    """The text after one to four damages; `other` gives parts to it."""
    if text[:1] in "{[" and rng.random() < 0.6:
        text = _damaged_tree(text, other, rng)
    for _ in range(rng.randint(1, 4)):
        text = rng.choice(_TEXT_DAMAGES)(text, other, rng)[:LONGEST]
    return text


def _two_places(text: str, rng: random.Random) -> tuple[int, int]:
    first, second = int(rng.random() * (len(text) + 1)), int(rng.random() * (len(text) + 1))
    return (first, second) if first <= second else (second, first)


def _insert(text: str, other: str, rng: random.Random) -> str:
    first, second = _two_places(text, rng)
    near = min(second, first + rng.randint(0, 12))
    return text[:first] + rng.choice(_PIECES) + text[near:]


def _cut(text: str, other: str, rng: random.Random) -> str:
    first, second = _two_places(text, rng)
    return text[:first] + text[second:]


def _truncate(text: str, other: str, rng: random.Random) -> str:
    return text[: _two_places(text, rng)[1]]


def _repeat(text: str, other: str, rng: random.Random) -> str:
    first, second = _two_places(text, rng)
    return text[:first] + text[first:second] * rng.choice((2, 3, 40)) + text[second:]


def _turn(text: str, other: str, rng: random.Random) -> str:
    first, second = _two_places(text, rng)
    return text[second:] + text[first:second] + text[:first]


def _case(text: str, other: str, rng: random.Random) -> str:
    first, second = _two_places(text, rng)
    near = min(second, first + rng.randint(0, 40))
    return text[:first] + text[first:near].swapcase() + text[near:]


def _number(text: str, other: str, rng: random.Random) -> str:
    """One number becomes an extreme one."""
    at = _NUMBER.search(text, _two_places(text, rng)[0])
    return text[: at.start()] + rng.choice(_NUMBERS) + text[at.end() :] if at else text


def _swap_fields(text: str, other: str, rng: random.Random) -> str:
    """Two words between separators change places."""
    one, two = (_FIELD.search(text, place) for place in _two_places(text, rng))
    if not one or not two or one.end() > two.start():
        return text
    return (
        f"{text[: one.start()]}{two[0]}{text[one.end() : two.start()]}{one[0]}{text[two.end() :]}"
    )


def _lines(text: str, other: str, rng: random.Random) -> str:
    """A line is lost, doubled, indented, moved, or taken from another text."""
    rows = text.split("\n")
    at, to = int(rng.random() * len(rows)), int(rng.random() * len(rows))
    kind = rng.randrange(6)
    if kind == 0:
        del rows[at]
    elif kind == 1:
        rows[at:at] = [rows[at]] * rng.choice((1, 2, 100))
    elif kind == 2:
        rows[at] = " " * rng.choice((1, 2, 4, 80)) + rows[at]
    elif kind == 3:
        rows[at], rows[to] = rows[to], rows[at]
    elif kind == 4:
        rows[at] = rows[at].lstrip()
    else:
        rows[at] = rng.choice(other.split("\n"))
    return "\n".join(rows)


def _splice(text: str, other: str, rng: random.Random) -> str:
    first, _ = _two_places(text, rng)
    start, end = _two_places(other, rng)
    return text[:first] + other[start:end][:2000] + text[first:]


def _nest(text: str, other: str, rng: random.Random) -> str:
    """A place is nested deeper than any recursion goes."""
    first, second = _two_places(text, rng)
    left, right = rng.choice(_NESTS)
    depth = rng.choice((2, 40, 2000))
    return text[:first] + left * depth + text[first:second] + right * depth + text[second:]


_TEXT_DAMAGES: tuple[Callable[[str, str, random.Random], str], ...] = (
    *(_insert, _insert, _number, _number, _swap_fields, _swap_fields, _lines, _lines, _lines),
    *(_cut, _truncate, _repeat, _turn, _case, _splice, _nest),
)


def _damaged_tree(text: str, other: str, rng: random.Random) -> str:
    """A JSON document after damage to its values, keys and order; the text itself if it is none."""
    try:
        tree = json.loads(text)
        places = list(_places(tree))
        for _ in range(rng.randint(1, 3)):
            _damage_place(rng.choice(places), rng.choice(places), rng)
        return json.dumps(tree, ensure_ascii=rng.random() < 0.5)
    except (ValueError, RecursionError, IndexError, KeyError):
        return text


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder with a key or index of it."""
    if isinstance(tree, (dict, list)):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _damage_place(at: tuple[Any, Any], to: tuple[Any, Any], rng: random.Random) -> None:
    (holder, key), (giver, name), kind = at, to, rng.randrange(6)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = giver[name]
    elif kind == 2 and isinstance(holder, dict):
        holder[rng.choice(("", "\0", "a" * 300, str(name)))] = holder.pop(key)
    elif kind == 3:
        holder[key] = [holder[key]] * rng.choice((1, 3, 20))
    else:
        holder[key] = rng.choice(_VALUES)


def damaged_bytes(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """The bytes after one to three damages; `other` gives parts to it."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if changed:
            rng.choice(_BYTE_DAMAGES)(changed, other, rng)
    return bytes(changed)


def _flip(data: bytearray, other: bytes, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 16)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set_number(data: bytearray, other: bytes, rng: random.Random) -> None:
    """A count, size or offset at its extremes, where headers have them or anywhere."""
    end = min(len(data), rng.choice((64, 600, len(data))))
    form = rng.choice(("<H", "<I", "<Q", ">I", ">Q"))
    size = struct.calcsize(form)
    if end >= size:
        value = rng.choice(_HUGE) & (1 << 8 * size) - 1
        struct.pack_into(form, data, rng.randrange(end - size + 1), value)


def _drop(data: bytearray, other: bytes, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.choice((1, 8, 64, len(data)))]


def _zero(data: bytearray, other: bytes, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    length = min(rng.choice((1, 16, 512)), len(data) - start)
    data[start : start + length] = bytes(length)


def _copy(data: bytearray, other: bytes, rng: random.Random) -> None:
    """Lay a piece over another: headers overlap, chains turn back on themselves."""
    length = min(rng.choice((4, 16, 64, 512)), len(data))
    source, target = (rng.randrange(len(data) - length + 1) for _ in range(2))
    data[target : target + length] = data[source : source + length]


def _take(data: bytearray, other: bytes, rng: random.Random) -> None:
    start, length = rng.randrange(len(other) + 1), rng.choice((1, 16, 512, 4096))
    at = rng.randrange(len(data))
    data[at:at] = other[start : start + length]


def _write(data: bytearray, other: bytes, rng: random.Random) -> None:
    """A piece of text where the format may hold text: tar and zip write numbers as digits."""
    piece = rng.choice((*_PIECES, *_NUMBERS)).encode("utf-8")[:64]
    at = rng.randrange(len(data))
    data[at : at + len(piece)] = piece


_BYTE_DAMAGES: tuple[Callable[[bytearray, bytes, random.Random], None], ...] = (
    *(_flip, _flip, _set_number, _set_number, _set_number, _drop, _zero, _copy, _take, _write),
)
