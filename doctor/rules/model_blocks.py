"""Weights with one scale for a square block, of which a rank would get a part."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from doctor.matrix import Matrix
from doctor.matrix.architectures import ModelRow
from doctor.rules.engine import Case
from doctor.rules.model_facts import (
    argument,
    known_model,
    language_config,
    model_name,
    width_of,
)
from doctor.rules.placement import placement

# What splits a layer by experts instead; shared experts and dense parts stay split by tensor.
_BY_EXPERT = ("enable_expert_parallel", "expert_parallel_size", "ep_size", "enable_ep_moe",
              "moe_a2a_backend")  # fmt: skip
# With these the dense part is not split as the arguments of the ranks say.
_DENSE_APART = ("enable_dp_attention", "moe_dense_tp_size")


@dataclass(frozen=True)
class Blocks:
    """Widths that ranks share, the side of a block, and whether the checkpoint is known."""

    widths: tuple[tuple[str, int], ...]
    side: int
    is_sure: bool

    def cut(self, size: int) -> list[str]:
        """What that many ranks would cut inside of a block, in words."""
        return [
            f"{width} columns of {part} are not {size} times whole blocks of {self.side}"
            for part, width in self.widths
            if width % (size * self.side)
        ]


def cut_blocks(case: Case, matrix: Matrix) -> Blocks | None:
    """The blocks of this model in an engine that refuses parts of one; None where unknown.

    Source: vllm-project/vllm issues 17327 and 52997, sgl-project/sglang issues 3345 and 5843.
    """
    if not placement(case, matrix).whole_blocks:
        return None
    row, config = known_model(matrix, model_name(case)), language_config(case)
    side, is_sure = _side(case, matrix, row, config)
    if not side:
        return None
    return Blocks(tuple(_widths(case, row, config)), side, is_sure)


def block_side(case: Case, matrix: Matrix) -> int:
    """The side of the blocks of weights that have one scale, most likely; 0 where unknown."""
    row = known_model(matrix, model_name(case))
    return _side(case, matrix, row, language_config(case))[0]


def _side(
    case: Case, matrix: Matrix, row: ModelRow | None, config: dict[str, Any]
) -> tuple[int, bool]:
    """The side of a block, 0 where none is known, and whether that is sure.

    Stated by the configuration, published for this repository, asked for at load time, or the
    habit of the maker whose name a quantized checkpoint bears.
    """
    declared = config.get("quantization_config")
    stated = declared.get("weight_block_size") if isinstance(declared, dict) else None
    if isinstance(stated, list) and stated and str(stated[0]).isdecimal():
        return int(stated[0]), True
    asked = str(argument(case, "quantization")[0] or "").lower()
    name = model_name(case)
    if row is not None and row.quant_block and row.repo.lower() == name.lower():
        return row.quant_block, True
    for form in matrix.memory.weight_formats:
        if form.block and asked in form.aliases:
            return form.block, False
    return _by_maker(matrix, row, name), False


def _by_maker(matrix: Matrix, row: ModelRow | None, name: str) -> int:
    """The habit of the maker; a folder of this host may hold the maker's own or another's."""
    owner, _, base = name.lower().rpartition("/")
    maker = row.repo.partition("/")[0].lower() if row is not None else owner
    if not maker or (owner not in ("", maker) and not name.startswith(("/", ".", "~"))):
        return 0
    found = (h for h in matrix.scaled_checkpoints if h.owner.lower() == maker)
    return next((h.block for h in found if re.search(h.suffix, base)), 0)


def _widths(case: Case, row: ModelRow | None, config: dict[str, Any]) -> list[tuple[str, int]]:
    experts = row.experts if row is not None else None
    width = width_of(config.get("moe_intermediate_size")) or (experts.width if experts else None)
    shared = width_of(config.get("shared_expert_intermediate_size"))
    shared = shared or (experts.shared if experts else None)
    dense = width_of(config.get("intermediate_size"))
    dense = dense or ((experts.dense if experts else row.intermediate) if row else None)
    by_expert = any(_is_asked(name, argument(case, name)[0]) for name in _BY_EXPERT)
    apart = any(argument(case, name)[0] for name in _DENSE_APART)
    named = (
        ("an expert", None if by_expert else width),
        ("a shared expert", None if apart else shared),
        ("the dense part", None if apart or (width and not dense) else dense),
    )
    return [(part, size) for part, size in named if size]


def _is_asked(name: str, value: Any) -> bool:
    """Whether experts are split: a size of one is no split."""
    unset = ("none", "false", "0", "", *(("1",) if name.endswith("_size") else ()))
    return str(value).lower() not in unset
