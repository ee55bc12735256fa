"""What is said of a line speaks of the package that the line names, and of no other."""

from __future__ import annotations

import pytest

from doctor.diagnose import diagnose
from doctor.intake.field_report import read_field_report
from doctor.matrix import load_matrix

MATRIX = load_matrix()
LIBRARIES = {
    "flash-attn": "flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so",
    "vllm": "vllm/_C.abi3.so",
    "xformers": "xformers/_C.so",
    "sgl-kernel": "sgl_kernel/common_ops.abi3.so",
    "causal-conv1d": "causal_conv1d_cuda.cpython-311-x86_64-linux-gnu.so",
    "auto-gptq": "autogptq_cuda_64.cpython-310-x86_64-linux-gnu.so",
}
SYMBOLS = (
    "_ZN3c104cuda9SetDeviceEi",
    "_ZN3c105ErrorC2ENS_14SourceLocationESs",
    "_ZNK3c1010TensorImpl27throw_data_ptr_access_errorEv",
    "_ZN2at4_ops19empty_memory_format4callEN3c108ArrayRefIlEE",
)


@pytest.mark.parametrize("symbol", SYMBOLS)
@pytest.mark.parametrize("name", LIBRARIES)
def test_an_undefined_symbol_is_that_of_its_own_library(name: str, symbol: str) -> None:
    log = f"ImportError: /opt/venv/lib/{LIBRARIES[name]}: undefined symbol: {symbol}"
    found = diagnose(read_field_report({"engine": "pytorch", "log": log}), MATRIX)
    primary = found.targets[0].primary
    assert primary is not None
    assert primary.cause == "abi-mismatch"
    others = {other for other in LIBRARIES if other != name}
    assert not [other for other in others if other in primary.message.lower()]
