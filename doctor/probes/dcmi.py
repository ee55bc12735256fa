"""DCMI, the library of the Ascend driver, asked by ctypes in a child with a deadline.

The document (`dcmi.json` of a recorded host):

    {"init": 0, "family": 1, "driver": "25.2.0", "count": 1,
     "devices": [{"card": 0, "device": 0, "logic": 0, "health": 0, "temperature": 38,
                  "chip": {"type": "Ascend", "name": "910B3", "npu": ""},
                  "hbm": {"size": 65536, "used": 3400}, "memory": {"size": 0, "available": 0},
                  "pci": {"address": "0000:c1:00.0", "id": "19e5:d802", "subsystem": ...},
                  "compatibility": 1, "processes": [{"pid": 7, "memory": bytes}]}]}

Each answer is the value or {"error": code}. Newer chips have a second family of functions,
which leave the card out and know a device by its logic id alone.
Sources: dcmi_interface_api.h of the CANN open-source driver; DCMI API reference.
"""

from __future__ import annotations

import os
import re
from typing import Any

from doctor.facts import Reading
from doctor.probes import forked

AT = "DCMI"
LIBRARY = "libdcmi.so"
_MISSING_PART = re.compile(r"^([\w.+-]{1,100}): cannot open shared object file")
_MOST_PARTS = 40


def query(folders: tuple[str, ...], timeout_s: float) -> Reading[forked.Document]:
    """All that DCMI answers; its library and what that needs are looked for in `folders`.

    `not-readable` if it cannot be loaded. A refusal is an answer: its `init` is not 0.
    """
    return forked.query(lambda: _ask(folders), timeout_s, AT)


def _ask(folders: tuple[str, ...]) -> forked.Document:
    try:
        import ctypes
    except ImportError:
        return {forked.UNASKED: "this python3 lacks the module ctypes"}
    place = next((f"{f}/{LIBRARY}" for f in folders if os.path.isfile(f"{f}/{LIBRARY}")), LIBRARY)
    try:
        library = _load(ctypes, place, folders)
    except OSError as error:
        return {forked.UNASKED: str(error)[:300]}
    from doctor.probes.dcmi_questions import ask_all

    return ask_all(ctypes, library)


def _load(ctypes: Any, path: str, folders: tuple[str, ...], loaded: int = 0) -> Any:
    """Load a library, and before it those that the loader's path does not lead to.

    The driver sets that path in shells only, and a process cannot change its own.
    """
    while True:
        try:
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            match = _MISSING_PART.match(str(error))
            part = match[1] if match else ""
            found = [f"{f}/{part}" for f in folders if part and os.path.isfile(f"{f}/{part}")]
            loaded += 1
            if not found or loaded > _MOST_PARTS or path.endswith(f"/{part}"):
                raise
            _load(ctypes, found[0], folders, loaded)
