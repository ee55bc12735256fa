"""Find the GPU products that a PCI id or a name may mean, as NVML prints it or people write it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache

from doctor.facts import ComputeCapability
from doctor.matrix.model import Gpu

# How makers name generations, and words that may stand beside one.
_GENERATION_TEXT = "fermi kepler maxwell pascal volta turing ampere ada hopper blackwell"
_GENERATIONS = frozenset(_GENERATION_TEXT.split())
_BESIDE_TEXT = "architecture arch series family class based era old lovelace"
_OF_GENERATION = frozenset(_BESIDE_TEXT.split())
# Words that tell no product from another.
_NOISE_TEXT = (
    "nvidia corporation geforce tesla grid gpu gpus graphics card vgpu nvgpu tensor core hgx dgx"
    " module developer kit edition generation hbm2 hbm2e hbm3 hbm3e"
)
_NOISE = frozenset(_NOISE_TEXT.split())
# Words that only a family has, so that they name no product alone.
_FAMILY_TEXT = "rtx gtx quadro pro ti super laptop sxm pcie jetson ada"
_FAMILY = frozenset(_FAMILY_TEXT.split())
# A product with one of these is not meant by a name that lacks it.
_VARIANT_TEXT = (
    "a d dgxs embedded fhhl h laptop lc ls max nvl oem pro q server sff super ti v2 workstation"
    " active"
)
_VARIANT = frozenset(_VARIANT_TEXT.split())
_SYNONYMS = {"mobile": "laptop", "notebook": "laptop", "maxq": "max", "s": "super"}

_COUNT = re.compile(
    # Behind a name a count stands apart or follows a figure: the x of "gtx 970" is none.
    r"^\s*\d{1,3}\s*[x\u00d7*]\s*(?=[a-z])|"
    r"(?:(?<=\d)\s*|(?<=[a-z])(?<!tegra)\s+)[x\u00d7*]\s*\d{1,3}\s*$"
)
_SLICE = re.compile(r"\bmig\b.*$|-\d{1,3}[abcq]\b|\b\d{1,2}g\.\d{1,3}gb\b")
_GLUED = (
    (re.compile(r"\b(tesla|nvidia|geforce|cmp)(?=[a-z]?\d)"), r"\1 "),
    (re.compile(r"\b(\d{3,4}) ?ti ?s\b"), r"\1 ti super "),
    (re.compile(r"\b(rtx|gtx|quadro|titan)(?=[\da-z]*\d)"), r"\1 "),
    (re.compile(r"\b(\d{3,4})(ti|super|d|s)\b"), r"\1 \2 "),
    (re.compile(r"\b(\d{1,3})\s*(?:gib|gb|g)\b"), r"\1gb"),
)
# How people write a name otherwise than its maker does: tried in turn where it fits nothing.
_NUMBER = r"(?:[5-9]|1[06]|[2-5]0)[1-9]0"  # of a GeForce: 750, 1080, 4090
_OTHERWISE = (
    (re.compile(r"(?<=\d0)s\b"), ""),  # four 4090s
    (re.compile(rf"\b[rg]tx?[ -]?(?={_NUMBER}(?!\d))"), ""),  # GTX 3090, RTX 1080 Ti
    (re.compile(r"\b([ahvptlkmb])[ -](?=\d{1,4}\b)"), r"\1"),  # A 100
    (re.compile(r"\ba(?=\d{4}\b.*\bada\b)"), ""),  # RTX A6000 Ada
    (re.compile(r"\b(?:laptop|mobile|notebook)\b"), ""),  # whose name is that of the other
)
# What makers of boards add is left out: EVGA RTX 3090 FTW3, MSI GeForce RTX 4090 Suprim X.
_CORE = re.compile(
    rf"\b(?:[rg]tx?|geforce)[ -]?({_NUMBER}(?: ?(?:ti|super|d)\b)*)(?!\d)(?:.*\b(laptop|mobile)\b)?"
)
_WORD = re.compile(r"[a-z0-9]+")
_MEMORY = re.compile(r"\d{1,3}gb")
_NEAR = 0.12  # a driver shows less than the nominal size


@lru_cache(maxsize=2048)
def words(name: str) -> tuple[str, ...]:
    """The telling words of a GPU's name: no brand, count, slice or punctuation."""
    text = _COUNT.sub(" ", name[:200].lower().replace("_", " "))
    text = _SLICE.sub(" ", text)
    for pattern, spaced in _GLUED:
        text = pattern.sub(spaced, text)
    found = (_SYNONYMS.get(word, word) for word in _WORD.findall(text))
    return tuple(word for word in found if word not in _NOISE)


class GpuIndex:
    """The products, by PCI id, by exact name and by the words of their names."""

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self._gpus = tuple(gpus)
        self._found: dict[tuple[str, str, str], tuple[Gpu, ...]] = {}

    def find(self, pci_id: str = "", subsystem: str = "", name: str = "") -> tuple[Gpu, ...]:
        """Products that "10de:2330" may be, narrowed by subsystem and name; else those so named."""
        key = (pci_id, subsystem, name)
        if key not in self._found:
            self._found[key] = self._find(pci_id, subsystem, name)
        return self._found[key]

    def _find(self, pci_id: str, subsystem: str, name: str) -> tuple[Gpu, ...]:
        found = self._by_pci.get(pci_id.lower(), ())
        if len(found) > 1:
            found = _narrowed(found, subsystem.lower())
        if not name or len(found) == 1:
            return found
        named = self.named(name)
        return tuple(gpu for gpu in found if gpu in named) or found or named

    def named(self, name: str) -> tuple[Gpu, ...]:
        """Products that the name may mean: one if it is exact, none if it fits none."""
        found = self._as_written(words(name))
        text = name[:200].lower().replace("_", " ")
        for pattern, instead in () if found else _OTHERWISE:
            text = pattern.sub(instead, text)
            found = found or self._as_written(words(text))
        core = None if found else _CORE.search(name[:200].lower())
        if core:
            found = self._as_written(words(" ".join(filter(None, core.groups()))))
        return self._of_generation(words(name), found)

    def _of_generation(self, asked: tuple[str, ...], found: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """Of what a name fits, the products of the generation that it tells as well or alone."""
        named = [word for word in asked if word in _GENERATIONS]
        if len(named) != 1:
            return found
        same = [gpu for gpu in self._gpus if gpu.arch.partition("-")[0] == named[0]]
        if set(asked) - {*named} - _OF_GENERATION:
            return tuple(gpu for gpu in found if gpu in same) or found
        # Modules are of the generation too, and people call them Jetson.
        return tuple(gpu for gpu in same if not gpu.arch.endswith("-jetson"))

    def _as_written(self, asked: tuple[str, ...]) -> tuple[Gpu, ...]:
        exact = self._exact.get(asked)
        if exact or not set(asked) - _FAMILY:
            return tuple(exact or ())
        return self._by_words(asked)

    def near(self, name: str) -> list[str]:
        """Names that look like one that fits no product."""
        names = {alias.lower(): alias for gpu in self._gpus for alias in (gpu.key, *gpu.names)}
        import difflib  # costs more than the look-up, and only a mistake needs it

        close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.6)
        return [names[text] for text in close]

    @cached_property
    def _by_pci(self) -> dict[str, tuple[Gpu, ...]]:
        index: dict[str, tuple[Gpu, ...]] = {}
        for gpu in self._gpus:
            for device in gpu.devices:
                pci_id = f"10de:{device}"
                index[pci_id] = (*index.get(pci_id, ()), gpu)
        return index

    @cached_property
    def _exact(self) -> dict[tuple[str, ...], list[Gpu]]:
        index: dict[tuple[str, ...], list[Gpu]] = {}
        for gpu in self._gpus:
            for name in {words(text) for text in (gpu.key, *gpu.names, *gpu.aliases)}:
                index.setdefault(name, []).append(gpu)
        return index

    @cached_property
    def _words(self) -> list[tuple[Gpu, frozenset[str]]]:
        return [(gpu, _words_of(gpu)) for gpu in self._gpus]

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset(word for _, own in self._words for word in own)

    def _by_words(self, asked: tuple[str, ...]) -> tuple[Gpu, ...]:
        # A word without digits that no product has ("founders") says nothing.
        telling = [w for w in asked if w in self._vocabulary or any(c.isdigit() for c in w)]
        soft = {w for w in telling if _MEMORY.fullmatch(w) or w in ("max", "q")}
        hard = [w for w in telling if w not in soft]
        # Nor does a letter or a figure alone: the h of V100-H, the x of TITAN X.
        if not {word for word in hard if len(word) > 1} - _FAMILY:
            return ()
        found = [item for item in self._words if all(_has(item[1], word) for word in hard)]
        found = [item for item in found if not (item[1] & _VARIANT) - set(asked)] or found
        found = [item for item in found if soft <= item[1]] or found
        return tuple(gpu for gpu, _ in found)


def like(
    found: tuple[Gpu, ...], capability: ComputeCapability | None, memory_mib: int | None
) -> tuple[Gpu, ...]:
    """Of several products those that a capability and a memory fit; all if none does."""
    if capability is not None:
        found = tuple(gpu for gpu in found if gpu.capability == str(capability)) or found
    if memory_mib:
        size = memory_mib / 1024
        fitting = (
            gpu for gpu in found if gpu.memory_gb and abs(gpu.memory_gb - size) < _NEAR * size
        )
        found = tuple(fitting) or found
    return found


def _narrowed(found: tuple[Gpu, ...], subsystem: str) -> tuple[Gpu, ...]:
    """Of products that share a device id, those that the subsystem allows."""
    if not subsystem:
        return found
    mine = tuple(gpu for gpu in found if subsystem in gpu.subsystems)
    return mine or tuple(gpu for gpu in found if not gpu.subsystems) or found


def _words_of(gpu: Gpu) -> frozenset[str]:
    texts = (gpu.key, gpu.arch, *gpu.names, *gpu.aliases)
    own = {word for text in texts for word in words(text)}
    if gpu.memory_gb:
        own.add(f"{gpu.memory_gb:g}gb")
    return frozenset(own)


def _has(own: frozenset[str], word: str) -> bool:
    """Tell whether a product has the word; "sxm" and "sxm5" each fit the other."""
    if word in own:
        return True
    if not word.startswith("sxm"):
        return False
    return "sxm" in own if word != "sxm" else any(w.startswith("sxm") for w in own)
