"""What a name that a person gives a card tells: its maker, how many there are, how much memory."""

from __future__ import annotations

import re

# The maker by words of the name, the first that fits. What fits none is taken for NVIDIA's.
_VENDORS = (
    # Makers of whose cards nothing is known here: their names may look like those of others.
    (
        "other",
        re.compile(
            r"metax|曦云|沐曦|moore ?threads|摩尔线程|\bmtt\b|\bhygon\b|海光|\bdcu\b|iluvatar|天数|"
            r"\bbi-?v?1[05]0|enflame|燧原|kunlun|昆仑|biren|壁仞|\bbr1\d\d\b|\btpu\b|trainium|"
            r"inferentia|\b(?:inf|trn)[12]\b|qualcomm|adreno|\bbw1\d00\b|\bk100[- ]ai\b|\bxpu r\d",
            re.I,
        ),
    ),
    (
        "ascend",
        re.compile(
            r"ascend|昇腾|\b(?:atlas|huawei|npu)\b|\b(?:310[bp]|910[abc_])|"
            r"\b910 ?(?:pro|premium)|\b950(?:pr|dt)\b|\b300[itv] ?(?:duo|pro)\b|^910$",
            re.I,
        ),
    ),
    (
        "amd",
        re.compile(
            r"\b(?:amd|radeon|instinct|firepro|strix|ryzen|vega ?\d{0,2}|mi\d{2,3}[axp]?|"
            r"gfx\d{3,4}|rx ?\d{3,4}(?: ?(?:xtx?|gre|[ms]))?|r9700|ai max\+?|w[5-7]\d00[dx]?|"
            r"v[67][1-4]0|bc-?250)\b|"
            r"\b[5-79]\d{3} ?(?:xtx?|gre)\b|^(?:[67][6-9]00|90[67]0)\b|"
            r"^[678]\d0m\b|^(?:[67][6-8]00|80[4-6]0)s\b",
            re.I,
        ),
    ),
    (
        "intel",
        re.compile(
            r"\b(?:intel|arc|gaudi ?\d?|habana|hl-?\d{3}[a-z]?|battlemage|"
            r"lunar lake|ponte vecchio|pvc|iris|uhd graphics|data center gpu (?:max|flex))\b|"
            r"^(?:a[357][15678]0|b5[78]0|b[5-7]0|uhd \d{3}|max 1[15][05]0|flex 1[47]0)\b",
            re.I,
        ),
    ),
    (
        "apple",
        re.compile(
            r"\bapple\b|\bm[1-9] (?:pro|max|ultra)\b|\bmac(?:book)?\b|^m[1-35](?: chip)?$", re.I
        ),
    ),
    ("cambricon", re.compile(r"\b(?:cambricon|mlu\d{0,4})\b|寒武纪", re.I)),
)
_WORDS = {"one": 1, "single": 1, "two": 2, "dual": 2, "three": 3, "triple": 3, "four": 4,
          "quad": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "sixteen": 16}  # fmt: skip
_TIMES = "[x\u00d7*]"
_BEFORE = re.compile(rf"(\d{{1,2}}\s?|\d{{1,9}}(?:\s|(?=\*))){_TIMES}\s?(\S.*)", re.I)
_IN_WORDS = re.compile(rf"(?:(\d{{1,2}})\s(?!{_TIMES}\s)(?=\D)|({'|'.join(_WORDS)})\s)(\S.*)", re.I)
# Behind letters ("MI300Xx8") a count is short, and stands at the x: "Max 1100", "RTX5090".
_BEHIND = re.compile(
    rf"(.*\S)(?:(?:\s|(?<=[\d)])){_TIMES}\s?(\d{{1,9}})|"
    r"(?:(?<!t)(?<!\bm)(?<!\br)x(?=\d{1,2}$)|[\u00d7*])(\d{1,9}))",
    re.I,
)
_NAME = re.compile(r"[a-z].*|\d{3,4}.*", re.I)
_PLURAL = re.compile(
    r"(?:(?<=\d\d\d)|(?<=\d\d\d[A-Z])|(?<=XTX)|(?<=[A-Z]\d)|(?<=\d[Tt]i))s$|"
    r"\s(?i:cards?|gpus?|npus?)$"
)
_MEMORY = re.compile(r"(?<![\w.])(\d{1,3})\s?g(?:i?b)?(?![\w.])", re.I)
# Sizes that are not those of one card: slices, all cards together, what a host shares.
_NOT_OF_CARD = re.compile(r"\bmig\b|\bv?gpu\b.*\d[qcab]\b|\btotal\b|\bunified\b|\bram\b", re.I)
_TOGETHER = re.compile(r"\s[+&]\s|\splus\s|\sand\s|,\s", re.I)
_MODEL = re.compile(r"(?<![\w.])(?:[a-z]{1,4}[ -]?)?\d{2,4}(?![\d.]| ?(?:[gm]i?b?|%|w)\b)", re.I)


def vendor_of(name: str) -> str:
    """The maker that a product name belongs to; nvidia where nothing speaks against it."""
    text = name.replace("_", " ")
    return next((vendor for vendor, words in _VENDORS if words.search(text)), "nvidia")


def counted(text: str) -> tuple[str, int | None]:
    """Split "8x H100", "four 4090s" or "4090x4" into name and count; None where none is stated.

    A number of three digits or more is a product's own, unless a name follows it.
    """
    before = _BEFORE.fullmatch(text)
    if before and _NAME.fullmatch(before[2]) and _is_count(before[1], before[2]):
        return _singular(before[2]), int(before[1])
    behind = _BEHIND.fullmatch(text)
    if behind and _is_named(behind[1]):
        return _singular(behind[1]), int(behind[2] or behind[3])
    words = _IN_WORDS.fullmatch(text)
    if words is None:
        return text, None
    number = int(words[1]) if words[1] else _WORDS[words[2].lower()]
    return _singular(words[3]), number


def _is_count(number: str, name: str) -> bool:
    """Two digits count anything; more ("7900 XT 16GB") only what looks like a name."""
    is_short = len(number.strip()) <= 2
    return is_short or bool(re.match(r"[a-z]{2,8}[ -]?\d{2}|[a-z]\d{2}", name, re.I))


# A MIG profile: so many slices of the processors, and its share of the memory.
_SLICE = re.compile(r"(?<![a-z0-9])\d{1,2}g\.(\d{1,3})gb(?![a-z0-9])", re.I)


def _is_named(name: str) -> bool:
    """Tell whether this is more than the beginning of a name: "R" and "GT" of "RX 580" are not."""
    return bool(re.search(r"\d|[a-z]{4}", name, re.I)) and not name.lower().endswith("tegra")


def _singular(name: str) -> str:
    """The name of one of them: "4090s" and "A100 GPUs" are 4090 and A100."""
    return _PLURAL.sub("", name.strip()) or name


def memory_in(name: str) -> int | None:
    """MiB that a name states for one card ("A100-80G", "MIG 1g.10gb"); None if it does not."""
    slices = {int(size) for size in _SLICE.findall(name)}
    if len(slices) == 1:
        return slices.pop() * 1024
    if _NOT_OF_CARD.search(name):
        return None
    sizes = {int(size) for size in _MEMORY.findall(name.replace("_", " "))}
    return sizes.pop() * 1024 if len(sizes) == 1 else None


def apart(text: str) -> list[str]:
    """Cards that one line names together: "2x RTX 5090 + RTX 3090", each as it stands there."""
    outside = re.sub(r"\([^()]*\)", lambda match: "\0" * len(match[0]), text)
    ends = [0, *(end for match in _TOGETHER.finditer(outside) for end in match.span()), len(text)]
    parts = [text[a:b].strip() for a, b in zip(ends[::2], ends[1::2], strict=True)]
    return parts if all(_MODEL.search(part) for part in parts) else [text]
