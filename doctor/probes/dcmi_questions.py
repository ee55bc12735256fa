"""What is asked of DCMI, written down as it answers. This runs in the child of `probes.dcmi`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

_FUNCTION_NOT_FOUND, _UNKNOWN = -99998, -99997
_NPU = 0
_MOST_CARDS, _MOST_PROCESSES = 64, 200
_NAME = 32
# Room behind what is read of a structure, for layouts may grow.
_SPARE = 256


def ask_all(ctypes: Any, library: Any) -> dict[str, Any]:
    """Ask everything once; a refusal of the library itself is the document's `init`."""
    return _Dcmi(ctypes, library).all()


def error_of(answer: object) -> Optional[int]:
    """The error code of an answer, or None if it is a value."""
    code = answer.get("error") if isinstance(answer, dict) else None
    return code if isinstance(code, int) and not isinstance(code, bool) else None


class _Dcmi:
    """The functions of one library, with errors as answers."""

    def __init__(self, ctypes: Any, library: Any) -> None:
        self.c = ctypes
        self.handle = library
        self.prefix = "dcmi"

    def all(self) -> dict[str, Any]:
        """Ask everything once, of the newer family where it starts."""
        self.prefix = "dcmiv2"
        newer = self.call("init")
        if newer is None:
            return {"init": 0, "family": 2, **self._answers(self._by_logic_id())}
        self.prefix = "dcmi"
        older = self.call("init")
        if older is None:
            return {"init": 0, "family": 1, **self._answers(self._by_card())}
        lacks = older["error"] == _FUNCTION_NOT_FOUND
        return {"init": (newer if lacks else older)["error"]}

    def call(self, name: str, *arguments: Any) -> Optional[dict[str, int]]:
        """None if the function succeeded, else {"error": code}."""
        try:
            function = getattr(self.handle, f"{self.prefix}_{name}")
        except AttributeError:
            return {"error": _FUNCTION_NOT_FOUND}
        code = function(*arguments)
        return {"error": code} if code else None

    def number(self, name: str, *arguments: Any, kind: str = "c_int") -> Any:
        """The number that a function gives through its last argument."""
        found = getattr(self.c, kind)()
        return self.call(name, *arguments, self.c.byref(found)) or found.value

    def _answers(self, listed: Any) -> dict[str, Any]:
        failed = error_of(listed) is not None
        devices = [] if failed else [self._device(*place) for place in listed]
        return {
            "driver": self._driver(),
            "count": listed if failed else len(devices),
            "devices": devices,
        }

    def _driver(self) -> Any:
        text = self.c.create_string_buffer(256)
        answer: Any = self.call("get_driver_version", text, self.c.c_uint(256))
        if answer is not None and self.prefix != "dcmi":
            self.prefix, family = "dcmi", self.prefix
            answer = self.call("get_driver_version", text, self.c.c_uint(256))
            self.prefix = family
        return answer or text.value.decode("utf-8", "replace")

    def _by_logic_id(self) -> Any:
        """Places (card, device, arguments of the functions) of the newer family."""
        numbers, count = (self.c.c_int * _MOST_CARDS)(), self.c.c_int()
        refused = self.call("get_device_list", numbers, self.c.byref(count), _MOST_CARDS)
        return refused or [(0, n, (n,)) for n in numbers[: max(count.value, 0)]]

    def _by_card(self) -> Any:
        count, cards = self.c.c_int(), (self.c.c_int * _MOST_CARDS)()
        refused = self.call("get_card_list", self.c.byref(count), cards, _MOST_CARDS)
        if refused is not None and refused["error"] == _FUNCTION_NOT_FOUND:
            refused = self.call("get_card_num_list", self.c.byref(count), cards, _MOST_CARDS)
        if refused is not None:
            return refused
        found = []
        for card in cards[: max(count.value, 0)]:
            chips = self.number("get_device_num_in_card", card)
            for chip in range(chips if isinstance(chips, int) else 0):
                # A card also has a management controller and a processor.
                if self.number("get_device_type", card, chip) in (
                    _NPU,
                    {"error": _FUNCTION_NOT_FOUND},
                ):
                    found.append((card, chip, (card, chip)))
        return found

    def _device(self, card: int, chip: int, place: tuple[int, ...]) -> dict[str, Any]:
        return {
            "card": card,
            "device": chip,
            "logic": chip if len(place) == 1 else self._logic(place),
            "chip": self._tried(lambda: self._chip(place)),
            "health": self.number("get_device_health", *place, kind="c_uint"),
            "temperature": self.number("get_device_temperature", *place),
            "hbm": self._tried(lambda: self._hbm(place)),
            "memory": self._tried(lambda: self._memory(place)),
            "pci": self._tried(lambda: self._pci(place)),
            "compatibility": self.number("get_device_compatibility", *place),
            "processes": self._tried(lambda: self._processes(place)),
        }

    def _tried(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except (ValueError, TypeError, self.c.ArgumentError):
            return {"error": _UNKNOWN}

    def _logic(self, place: tuple[int, ...]) -> Any:
        found = self.c.c_int()
        return self.call("get_device_logic_id", self.c.byref(found), *place) or found.value

    def _filled(self, name: str, place: tuple[int, ...], fields: list[tuple[str, Any]]) -> Any:
        """A structure that a function fills."""
        room = ("_", self.c.c_char * _SPARE)
        kind = type("Filled", (self.c.Structure,), {"_fields_": [*fields, room]})
        found = kind()
        return self.call(name, *place, self.c.byref(found)) or found

    def _chip(self, place: tuple[int, ...]) -> Any:
        """The second form adds the name of the NPU, which chips of two dies have."""
        text = self.c.c_char * _NAME
        fields = [("type", text), ("name", text), ("version", text), ("cores", self.c.c_uint)]
        names = ("type", "name", "npu")
        found = self._filled("get_device_chip_info_v2", place, [*fields, ("npu", text)])
        if error_of(found) is not None:
            whole = [*fields, ("npu", text)] if len(place) == 1 else fields
            found = self._filled("get_device_chip_info", place, whole)
        if error_of(found) is not None:
            return found
        return {n: getattr(found, n, b"").decode("utf-8", "replace") for n in names}

    def _hbm(self, place: tuple[int, ...]) -> Any:
        c = self.c
        fields = [("size", c.c_ulonglong), ("clock", c.c_uint), ("used", c.c_ulonglong)]
        found = self._filled("get_device_hbm_info", place, fields)
        return found if error_of(found) is not None else {"size": found.size, "used": found.used}

    def _memory(self, place: tuple[int, ...]) -> Any:
        c = self.c
        found = self._filled(
            "get_device_memory_info_v3",
            place,
            [("size", c.c_ulonglong), ("available", c.c_ulonglong)],
        )
        if error_of(found) is not None:
            return found
        return {"size": found.size, "available": found.available}

    def _pci(self, place: tuple[int, ...]) -> Any:
        names = ("vendor", "subvendor", "id", "subid", "domain", "bus", "slot", "function")
        fields = [(name, self.c.c_uint) for name in names]
        name = "get_device_pcie_info" if len(place) == 1 else "get_device_pcie_info_v2"
        p = self._filled(name, place, fields)
        if error_of(p) is not None:
            return p
        return {
            "address": f"{p.domain:04x}:{p.bus:02x}:{p.slot:02x}.{p.function:x}",
            "id": f"{p.vendor:04x}:{p.id:04x}",
            "subsystem": f"{p.subvendor:04x}:{p.subid:04x}",
        }

    def _processes(self, place: tuple[int, ...]) -> Any:
        c = self.c
        fields = [("pid", c.c_int), ("memory", c.c_ulong)]
        kind: Any = type("Process", (c.Structure,), {"_fields_": fields})
        found, count = (kind * _MOST_PROCESSES)(), c.c_int(_MOST_PROCESSES)
        refused = self.call("get_device_resource_info", *place, found, c.byref(count))
        listed = found[: min(max(count.value, 0), _MOST_PROCESSES)]
        return refused or [{"pid": p.pid, "memory": p.memory} for p in listed]
