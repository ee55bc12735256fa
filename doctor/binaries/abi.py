"""Symbols that a library needs and that nothing which would load beside it defines.

Only families of symbols whose home is known are judged: torch's C++ API, the CUDA
driver API, the nvJitLink library, and Huawei's ATB. Where the home itself is not
there, a missing symbol says nothing more, and the family is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Optional

from doctor.binaries.elf import Elf
from doctor.binaries.sources import BinaryUnreadable, open_file
from doctor.binaries.symbols import Symbols

_MAX_OPEN = 256


@dataclass(frozen=True)
class Family:
    """Symbols that begin with one of `prefixes` and are defined by libraries named `home`."""

    name: str
    prefixes: tuple[bytes, ...]
    home: re.Pattern[str]
    outside: tuple[str, ...] = ()

    def holds(self, symbol: str) -> bool:
        """Tell whether a symbol is one of them."""
        return symbol.encode().startswith(self.prefixes) and not symbol.startswith(self.outside)


def _mangled(*namespaces: str) -> tuple[bytes, ...]:
    """Starts of functions, methods, vtables and type information of C++ namespaces."""
    kinds = ("_ZN", "_ZNK", "_ZTVN", "_ZTIN", "_ZTSN")
    return tuple(f"{kind}{len(n)}{n}".encode() for n in namespaces for kind in kinds)


_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_DRIVER = tuple(f"cu{letter}".encode() for letter in _UPPER)

FAMILIES = (
    Family(
        "torch",
        (*_mangled("c10", "at", "torch"), b"aoti_torch_"),
        re.compile(r"lib(?:torch|c10).*\.so.*"),
    ),
    # cuFile is a library of its own that shares the driver's prefix.
    Family("driver", _DRIVER, re.compile(r"libcuda\.so.*"), ("cuFile",)),
    Family("nvjitlink", (b"__nvJitLink",), re.compile(r"libnvJitLink\.so.*")),
    Family("atb", _mangled("atb", "Mki"), re.compile(r"lib(?:atb|mki|asdops).*\.so.*")),
)
_ALL_PREFIXES = tuple(prefix for family in FAMILIES for prefix in family.prefixes)


def family_of(symbol: str) -> str:
    """The family that a symbol belongs to: torch, driver, nvjitlink, atb, or ""."""
    return next((family.name for family in FAMILIES if family.holds(symbol)), "")


def wanted_symbols(path: str) -> tuple[str, ...]:
    """Undefined, not weak symbols of the families; raises `BinaryUnreadable`."""
    with open_file(path) as source:
        names = Symbols(Elf(source)).undefined(_ALL_PREFIXES)
        return tuple(name for name in names if family_of(name))


def lost_symbols(user: str, taken: str, hidden: str) -> tuple[str, ...]:
    """What `user` needs, `hidden` defines and `taken` does not; nothing if one cannot be read."""
    try:
        with open_file(user) as a, open_file(taken) as b, open_file(hidden) as c:
            wanted = Symbols(Elf(a)).undefined((b"",))
            here, there = Symbols(Elf(b)), Symbols(Elf(c))
            return tuple(n for n in wanted if not here.defines(n) and there.defines(n))
    except BinaryUnreadable:
        return ()


class Providers:
    """The libraries of one process, opened when they are first asked. Close after use."""

    def __init__(self, libraries: Iterable[tuple[str, str]]) -> None:
        """`libraries` are names (as loaded) and paths on this machine."""
        self._libraries = tuple(libraries)
        self._open: dict[str, Optional[Symbols]] = {}
        self._files = ExitStack()

    def missing(
        self, symbols: Iterable[str], absent: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Those that nothing defines. `absent` are libraries that the user did not find."""
        wanted = [symbol for symbol in symbols if self._is_decidable(symbol, absent)]
        return tuple(symbol for symbol in wanted if not self._defined(symbol))

    def close(self) -> None:
        """Close all files."""
        self._files.close()
        self._open.clear()

    def _is_decidable(self, symbol: str, absent: frozenset[str]) -> bool:
        family = next((f for f in FAMILIES if f.holds(symbol)), None)
        if family is None or any(family.home.fullmatch(name) for name in absent):
            return False
        return any(family.home.fullmatch(name) for name, _ in self._libraries)

    def _defined(self, symbol: str) -> bool:
        family = next(f for f in FAMILIES if f.holds(symbol))
        homes = [lib for lib in self._libraries if family.home.fullmatch(lib[0])]
        others = [lib for lib in self._libraries if lib not in homes]
        return any(self._defines(path, symbol) for _, path in (*homes, *others))

    def _defines(self, path: str, symbol: str) -> bool:
        """A library that cannot be read might define anything."""
        try:
            symbols = self._symbols(path)
            return symbols is None or symbols.defines(symbol)
        except BinaryUnreadable:
            return True

    def _symbols(self, path: str) -> Optional[Symbols]:
        if path not in self._open:
            if len(self._open) >= _MAX_OPEN:
                self.close()
            source = self._files.enter_context(open_file(path))
            self._open[path] = Symbols(Elf(source))
        return self._open[path]
