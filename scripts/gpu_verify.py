"""Hold doctor against a real GPU: facts, coverage, memory and a known answer.

    python scripts/gpu_verify.py OUT [--python PYTHON] [--wheels FOLDER]

PYTHON holds torch (by default the Python that runs this). FOLDER holds wheels of
xllamacpp's CUDA build and of what `llm-doctor[smoke]` needs; without it the known answer is
left out, and said to be. Nothing is fetched. Clocks, modes and MIG stay as they are. Writes
OUT/verify.json and OUT/host (a recorded host, scrubbed).
Exit 1 if anything differs from what doctor said, 2 if there is no GPU to ask.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from doctor.facts import CodeTarget, ComputeCapability, Coverage  # noqa: E402
from doctor.matrix import load_matrix  # noqa: E402

KERNELS = ROOT / "scripts" / "gpu_kernels.py"
CONFIG = ROOT / "scripts" / "gpu_verify_config.json"
HERE = {"PYTHONPATH": str(ROOT)}
SAME, DIFFERS, SKIPPED, OPEN = "same", "differs", "skipped", "open"
MODES = {
    "as it is": {},
    "machine code alone": {"CUDA_DISABLE_PTX_JIT": "1"},
    "PTX alone": {"CUDA_FORCE_PTX_JIT": "1"},
}
QUERY = "name,driver_version,compute_cap,memory.total,pci.device_id,mig.mode.current"


@dataclass(frozen=True)
class Row:
    """One thing that was held against the GPU; `state` is same, differs, skipped or open."""

    step: str
    what: str
    said: str
    found: str
    state: str


def row(step: str, what: str, said: object, found: object) -> Row:
    """Compare two values."""
    return Row(step, what, str(said), str(found), SAME if said == found else DIFFERS)


def run(
    *argv: str, limit_s: float = 120, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command; it never raises for its exit status."""
    whole = {**os.environ, **(env or {})}
    return subprocess.run(
        argv, env=whole, capture_output=True, text=True, timeout=limit_s, check=False
    )


def doctor(*words: str, python: str = sys.executable, limit_s: float = 120) -> Any:
    """The JSON answer of a verb."""
    answer = run(python, "-m", "doctor", *words, "--format", "json", limit_s=limit_s,
                 env=HERE)  # fmt: skip
    if not answer.stdout:
        raise SystemExit(f"doctor {words[0]}: {answer.stderr[-500:]}")
    return json.loads(answer.stdout)


def value(facts: Any, *path: str) -> Any:
    """A leaf of wire facts, None where it is missing."""
    for key in path:
        facts = facts.get(key, {})
    return facts.get("value") if isinstance(facts, dict) else None


def smi_cards() -> list[dict[str, str]]:
    """The cards as nvidia-smi names them."""
    answer = run("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits")
    keys = QUERY.split(",")
    return [dict(zip(keys, line.split(", "), strict=True)) for line in answer.stdout.splitlines()]


def against_smi(facts: Any) -> Iterator[Row]:
    """The facts beside nvidia-smi."""
    cards = smi_cards()
    devices = whole_cards(facts)
    yield row("facts", "cards", len(devices), len(cards))
    for device, card in zip(devices, cards, strict=False):
        which = f"card {device['id']}"
        yield row("facts", f"{which} name", value(device, "name"), card["name"])
        capability = value(device, "compute_capability")
        yield row("facts", f"{which} compute capability", capability, card["compute_cap"])
        yield row("facts", f"{which} MiB", value(device, "memory_mib"), int(card["memory.total"]))
        yield row("facts", "driver", value(facts, "nvidia", "driver"), card["driver_version"])


def against_torch(facts: Any, about: Any) -> Iterator[Row]:
    """The facts beside what torch says when it is run."""
    builds = [value(scope, "torch") for scope in facts.get("scopes", ())]
    build = next((b for b in builds if b and b["version"] == about["torch"]), None)
    yield row("facts", "torch", build["version"] if build else None, about["torch"])
    if build:
        yield row("facts", "torch's CUDA", value(build, "cuda"), about["cuda"])
    for device, capability in zip(whole_cards(facts), about["capabilities"], strict=False):
        what = f"capability by torch of {device['id']}"
        yield row("facts", what, value(device, "compute_capability"), capability)


def whole_cards(facts: Any) -> list[Any]:
    """NVIDIA devices without slices of them."""
    devices = [d for d in value(facts, "devices") or () if d["vendor"] == "nvidia"]
    return [d for d in devices if not (value(d, "mig") or {}).get("parent")]


def tallies(folder: Path, capability: str) -> dict[str, Counts]:
    """Groups of kernels by what the card runs, for each library of a torch environment."""
    found: dict[str, Counts] = {}
    libraries = {"torch": folder / "lib"}
    nvidia = folder.parent / "nvidia"
    libraries |= {name: nvidia / name for name in ("cublas", "cudnn", "nccl")}
    if (nvidia / "cu13").is_dir():
        libraries["cublas"] = nvidia / "cu13"
    for name, place in libraries.items():
        if place.is_dir():
            report = doctor("scan", str(place), "--cc", capability)
            found[name] = tally(report, capability)
    return found


@dataclass(frozen=True)
class Counts:
    """Groups of kernels: all, those with machine code for the card, those with PTX for it."""

    total: int = 0
    sass: int = 0
    ptx: int = 0
    either: int = 0


def tally(report: Any, capability: str) -> Counts:
    """Count the groups of a scan that one card can run."""
    card, found = ComputeCapability.parse(capability), Counts()
    tegra = load_matrix().tegra
    for group in (g for file in report["files"] for g in file.get("kernels", ())):
        able = {t.kind for t in map(CodeTarget.parse, group["targets"]) if t.runs_on(card, tegra)}
        count = group.get("count", 1)
        found = Counts(
            found.total + count,
            found.sass + count * (Coverage.SASS in able),
            found.ptx + count * (Coverage.PTX in able),
            found.either + count * bool(able),
        )
    return found


def expected(counts: Counts, mode: str) -> bool | None:
    """Whether the kernels of a library must run in that mode; None if some may and some not."""
    able = {"as it is": counts.either, "machine code alone": counts.sass, "PTX alone": counts.ptx}
    if able[mode] == 0:
        return False
    return True if able[mode] == counts.total else None


def coverage(python: str, about: Any) -> Iterator[Row]:
    """What doctor says of the code in each library beside kernels that are run."""
    capability = about["capabilities"][0]
    counted = tallies(Path(about["folder"]), capability)
    for mode, env in MODES.items():
        answer = run(python, str(KERNELS), "kernels", env=env)
        for line in answer.stdout.splitlines():
            found = json.loads(line)
            counts = counted.get(found["library"])
            what = f"{found['kernel']} of {found['library']}, {mode}"
            ran = "runs" if found["ran"] else f"does not run: {found['error']}"
            want = expected(counts, mode) if counts and counts.total else None
            if want is None:
                yield Row("coverage", what, f"open: {counts}", ran, OPEN)
            else:
                said = f"{'runs' if want else 'does not run'}: {counts}"
                state = SAME if want == found["ran"] else DIFFERS
                yield Row("coverage", what, said, ran, state)


def memory(python: str, about: Any) -> Iterator[Row]:
    """The bytes that `doctor fit` says of a model beside those that torch takes for it."""
    answer = run(python, str(KERNELS), "memory")
    if answer.returncode:
        yield Row("memory", "weights", "", answer.stderr.strip()[-200:], SKIPPED)
        return
    taken = json.loads(answer.stdout)
    said = doctor("fit", str(CONFIG), "--gpu", about["cards"][0])["bytes"]
    weights = said["weights"] - said["weights_by_kind"].get("rotary", 0)
    off = abs(weights - taken["tensors"]) / taken["tensors"]
    yield Row("memory", "weights", f"{weights}", f"{taken}", SAME if off <= 0.005 else DIFFERS)


def known_answer(wheels: str) -> Iterator[Row]:
    """The known answer of llama.cpp on the GPU, in an environment made of carried wheels."""
    if not wheels:
        yield Row("known answer", "llama.cpp on the GPU", "", "no --wheels", SKIPPED)
        return
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        done = run(python, "-m", "pip", "install", "-q", "--no-index", "--find-links", wheels,
                   "xllamacpp", "aiohttp", "click", "msgspec", "packaging", "PyYAML",
                   "nvidia-ml-py")  # fmt: skip
        if done.returncode:
            yield Row("known answer", "llama.cpp on the GPU", "", done.stderr[-200:], SKIPPED)
            return
        words = ("smoke", "--arg", "n_gpu_layers=99", "--keep-log", f"{folder}/log")
        found = doctor(*words, python=python)
        log = "".join(p.read_text(errors="replace") for p in Path(folder, "log").iterdir())
        yield row("known answer", "llama.cpp on the GPU", "proven", found["verdict"])
        yield row("known answer", "layers on the GPU", True, "CUDA0" in log)


def every(python: str, wheels: str, out: Path) -> Iterator[Row]:
    """All steps, the cheap ones first."""
    done = run(sys.executable, "-m", "doctor", "record", str(out / "host"), "--python", python,
               env=HERE)  # fmt: skip
    if done.returncode:
        raise SystemExit(f"doctor record: {done.stderr[-500:]}")
    facts = json.loads((out / "host" / "facts.json").read_text())
    yield from against_smi(facts)
    answer = run(python, str(KERNELS), "about")
    if answer.returncode:
        yield Row("facts", "torch", "", answer.stderr.strip()[-200:], SKIPPED)
    else:
        about = json.loads(answer.stdout)
        yield from against_torch(facts, about)
        if about["capabilities"]:
            yield from coverage(python, about)
            yield from memory(python, about)
    yield from known_answer(wheels)


def main() -> int:
    """Run all steps and write what they found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--wheels", default="")
    options = parser.parse_args()
    if shutil.which("nvidia-smi") is None or run("nvidia-smi", "-L").returncode:
        print("gpu_verify: nvidia-smi finds no GPU here", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for found in every(options.python, options.wheels, options.out):
        rows.append(found)
        words = f"{found.step}: {found.what}: said {found.said}; found {found.found}"
        print(f"{found.state:<8} {words}", flush=True)
    (options.out / "verify.json").write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    states = (SAME, DIFFERS, SKIPPED, OPEN)
    counts = {state: sum(r.state == state for r in rows) for state in states}
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    return 1 if counts[DIFFERS] else 0


if __name__ == "__main__":
    sys.exit(main())
