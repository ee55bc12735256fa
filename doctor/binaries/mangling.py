"""The words of the Itanium C++ mangling, and types as it builds them up."""

from __future__ import annotations

from typing import Optional

BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char",
    "h": "unsigned char", "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int",
    "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long",
    "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double",
    "g": "__float128", "z": "...",
}  # fmt: skip
BUILTIN_D = {"n": "decltype(nullptr)", "s": "char16_t", "i": "char32_t", "u": "char8_t",
              "h": "half", "a": "auto"}  # fmt: skip
STANDARD = {
    "t": "std", "a": "std::allocator", "b": "std::basic_string",
    "s": "std::string",
    "i": "std::basic_istream<char, std::char_traits<char> >",
    "o": "std::basic_ostream<char, std::char_traits<char> >",
    "d": "std::basic_iostream<char, std::char_traits<char> >",
}  # fmt: skip
OPERATORS = {
    "nw": " new", "na": " new[]", "dl": " delete", "da": " delete[]", "ps": "+", "ng": "-",
    "ad": "&", "de": "*", "co": "~", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%",
    "an": "&", "or": "|", "eo": "^", "aS": "=", "pL": "+=", "mI": "-=", "mL": "*=", "dV": "/=",
    "rM": "%=", "aN": "&=", "oR": "|=", "eO": "^=", "ls": "<<", "rs": ">>", "lS": "<<=",
    "rS": ">>=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
    "nt": "!", "aa": "&&", "oo": "||", "pp": "++", "mm": "--", "cm": ",", "pt": "->",
    "cl": "()", "ix": "[]", "ss": "<=>",
}  # fmt: skip
LITERAL_ENDINGS = {"int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul",
                    "long long": "ll", "unsigned long long": "ull"}  # fmt: skip
SPECIAL = {"TV": "vtable for ", "TI": "typeinfo for ", "TS": "typeinfo name for ",
            "TT": "VTT for ", "GV": "guard variable for "}  # fmt: skip
QUALIFIERS = {"r": " restrict", "V": " volatile", "K": " const"}
SIGNS = {"P": "*", "R": "&", "O": "&&"}


class Beyond(Exception):  # noqa: N818 - leads to the mangled name, nothing fails
    """The name uses grammar that is not read here, or is broken."""


class Type:
    """A type in two halves, between which `*`, `&` or a name goes; or a pack of types.

    `bracketed` types (functions, arrays) need brackets around what goes between.
    """

    __slots__ = ("after", "before", "bracketed", "pack")

    def __init__(self, before: str, after: str = "", *, bracketed: bool = False) -> None:
        self.before = before
        self.after = after
        self.bracketed = bracketed
        self.pack: Optional[list[Type]] = None

    def __str__(self) -> str:
        if self.pack is not None:
            return ", ".join(str(part) for part in self.pack)
        # Of an array, what would go between keeps its blank where there is nothing.
        before = self.before.rstrip(" ") if self.after.startswith(" ") else self.before
        return before + self.after

    def pointing(self, sign: str) -> Type:
        """A pointer or reference to this type; references to references collapse."""
        if self.pack is not None:
            return packed([part.pointing(sign) for part in self.pack])
        if sign[0] == "&" and self.before.endswith("&"):
            single = sign == "&" and self.before.endswith("&&")
            return Type(self.before[:-1], self.after) if single else self
        if self.bracketed:
            return Type(f"{self.before}({sign}", f"){self.after}")
        return Type(self.before + sign, self.after)


def packed(parts: list[Type]) -> Type:
    """The arguments of a variadic template as one."""
    found = Type("")
    found.pack = parts
    return found


class Reader:
    """A place in a mangled name that moves forward."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    @property
    def at_end(self) -> bool:
        """True when all was read."""
        return self.place == len(self.text)

    def peek(self, length: int = 1) -> str:
        """The next characters, without moving."""
        return self.text[self.place : self.place + length]

    def take(self, expected: str) -> bool:
        """Move behind `expected` if it comes next."""
        if not self.text.startswith(expected, self.place):
            return False
        self.place += len(expected)
        return True

    def next(self) -> str:
        """The next character; raises IndexError at the end."""
        char = self.text[self.place]
        self.place += 1
        return char

    def number(self) -> int:
        """A decimal number of at most five digits."""
        start = self.place
        while self.peek().isdecimal():
            self.place += 1
        if not 0 < self.place - start <= 5:
            raise Beyond
        return int(self.text[start : self.place])

    def run(self, chars: str) -> str:
        """The longest run of these characters that comes next, without moving."""
        end = self.place
        while end < len(self.text) and self.text[end] in chars:
            end += 1
        return self.text[self.place : end]
