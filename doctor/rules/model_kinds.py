"""What a claim's `when` may ask about the model that is served: its name, and how it attends."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor.matrix import Matrix
from doctor.rules.engine import Case
from doctor.rules.model_facts import architecture_names, known_model, model_name

_LATENT = "kv_lora_rank"  # of configurations whose attention keeps a latent vector


@dataclass(frozen=True)
class ModelKind:
    """The model of a case; what it is called is worked out when a condition asks."""

    case: Case | None = None
    matrix: Matrix | None = None

    def is_named(self, pattern: str) -> bool | None:
        """Tell whether one of the model's names fits; None if it has none."""
        if self.case is None or self.matrix is None:
            return None
        names = architecture_names(self.case, self.matrix)
        return any(re.search(pattern, name, re.IGNORECASE) for name in names) if names else None

    def attends(self, how: str) -> bool | None:
        """Tell whether it attends to a latent vector (MLA), "latent", or not, "plain"."""
        if self.case is None or self.matrix is None:
            return None
        work = self.case.workload
        config = (work.model.value or {}) if work is not None else {}
        row = known_model(self.matrix, model_name(self.case))
        if config.get(_LATENT) or (row is not None and row.latent is not None):
            return how == "latent"
        if row is not None:
            return how == "plain"
        names = architecture_names(self.case, self.matrix)
        shared = [r.latent is not None for r in self.matrix.models if r.architecture in names]
        return how == "latent" if shared and all(shared) else None
