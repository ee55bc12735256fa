"""From what was asked to a plan of a server: which engine, where it is, which model."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from doctor.errors import UsageError
from doctor.facts import Specifier, Version
from doctor.matrix import Matrix
from doctor.matrix.launching import Launch
from doctor.smoke import known
from doctor.smoke.ask import Ask
from doctor.smoke.launch import (
    LaunchError,
    LaunchPlan,
    Wanted,
    launch_row,
    plan_launch,
    with_settings,
)
from doctor.smoke.process import free_port
from doctor.smoke.where import Place, find_place

DEFAULT_ENGINE = "xllamacpp"
HOST = "127.0.0.1"
# Little is asked for, so that a proof also runs beside other work. One thread: two on busy
# cores wait for each other at every token of so small a model.
_SMALL: dict[str, Any] = {
    "max_model_len": 512,
    "max_input_tokens": 480,
    "max_num_seqs": 2,
    "gpu_memory_utilization": 0.2,
    "threads": 1,
}
_CONFIG_LIMIT = 10 << 20
# It has two key-value heads.
_MOST_PARTS = 2


@dataclass(frozen=True)
class Model:
    """What is to be served: its path or name, the name to serve it by, its number format."""

    path: str
    name: str = ""
    form: str = ""

    @property
    def is_known(self) -> bool:
        """True for the known-answer model."""
        return bool(self.form)

    @property
    def is_here(self) -> bool:
        """True if it lies on this machine, so that nothing need be downloaded."""
        return Path(self.path).exists()


@dataclass(frozen=True)
class Prepared:
    """A plan with what it was made of."""

    plan: LaunchPlan
    place: Place
    model: Model
    port: int


def prepare(ask: Ask, matrix: Matrix) -> Prepared:
    """Find the engine and plan its server. Raises UsageError or LaunchError."""
    engine = ask.engine or DEFAULT_ENGINE
    row = launch_row(engine, ask.version, matrix)
    place = find_place(row, ask.python)
    place = replace(place, version=_agreed(ask, place.version))
    model = choose_model(ask.model, row)
    port = _port(ask)
    args = {**_own_arguments(row, model, port), **ask.args}
    split = args.get("tensor_parallel_size")
    notes: tuple[str, ...] = ()
    if model.is_known and isinstance(split, int) and split > _MOST_PARTS:
        args["tensor_parallel_size"] = _MOST_PARTS
        notes = (f"the known-answer model can be split in {_MOST_PARTS}, not in {split}",)
    wanted = Wanted(
        engine,
        model.path,
        place.version,
        args,
        place.python,
        place.bin,
        place.install,
        offline=model.is_here,
    )
    plan = plan_launch(wanted, matrix)
    env = {**plan.env, **ask.env}
    return Prepared(replace(plan, env=env, notes=(*notes, *plan.notes)), place, model, port)


def _agreed(ask: Ask, installed: Version | None) -> Version | None:
    """The version that was asked for; it must be the installed one, if that is known."""
    if installed is None:
        return ask.version
    spec = Specifier.parse(ask.versions)
    fits = spec is None or spec.admits(installed) is not False
    if ask.version is not None and ask.version.same_as(installed) is False:
        fits = False
    if not fits:
        wanted = ask.version or ask.versions
        raise LaunchError(
            f"{ask.engine} {installed} is installed, not {wanted}", "name its place with --python"
        )
    return installed


def _port(ask: Ask) -> int:
    port = ask.args.get("port", 0)
    if not isinstance(port, int) or not 0 <= port < 65536:
        raise UsageError(f"port {port!r} is no port", "--arg port=8000")
    return port or free_port(HOST)


def _own_arguments(row: Launch, model: Model, port: int) -> dict[str, Any]:
    """What every smoke test sets; for the known-answer model also little memory."""
    wanted: dict[str, Any] = {"host": HOST, "port": port, "tls": False}
    if model.is_known:
        wanted |= {"served_model_name": model.name, **_SMALL}
    return {n: value for n, value in wanted.items() if n in row.arguments or n in row.settings}


def choose_model(asked: str, row: Launch) -> Model:
    """The known-answer model in a form that the engine reads, or the one that was asked for.

    Raises UsageError for a form that does not exist, DoctorError for damaged files.
    """
    if asked and not asked.startswith(known.NAME):
        path = Path(asked)
        return Model(str(path.absolute()) if path.exists() else asked)
    form = asked.removeprefix(known.NAME).strip("-")
    if row.model_form == "hf":
        if form not in ("", "hf"):
            raise UsageError(f"{row.engine} reads no GGUF", "leave --model out")
        return Model(str(known.hf_folder()), known.NAME, "hf")
    if form not in ("", *known.GGUF_FORMS):
        forms = ", ".join(f"{known.NAME}-{name}" for name in known.GGUF_FORMS)
        raise UsageError(f"there is no {asked[:60]!r}", f"there are {forms}")
    return Model(str(known.gguf_file(form or "f16")), known.NAME, form or "f16")


def environment(prepared: Prepared, ask: Ask, folder: Path) -> dict[str, str]:
    """The environment of the server's process. Writes its configuration, if it has one."""
    row, env = prepared.plan.row, dict(os.environ)
    if prepared.place.bin:
        env["PATH"] = f"{prepared.place.bin}:{env.get('PATH', '')}"
    if row.engine == DEFAULT_ENGINE:
        # Our own module, which need not be installed where it was started from.
        package = str(Path(__file__).parents[2])
        env["PYTHONPATH"] = f"{package}:{env['PYTHONPATH']}" if "PYTHONPATH" in env else package
    env |= prepared.plan.env
    if ask.key.value:
        if not row.key_env:
            raise LaunchError(f"{row.engine} takes no API key", "leave --api-key out")
        env[row.key_env] = ask.key.value
    if prepared.plan.settings:
        env[row.config_env] = str(_write_config(prepared, folder))
    return env


def _write_config(prepared: Prepared, folder: Path) -> Path:
    """The engine's own configuration with our settings in it, in a folder of ours."""
    sources = [
        Path(place.replace("{install}", prepared.place.install))
        for place in prepared.plan.row.config_from
    ]
    source = next((path for path in sources if path.is_file()), None)
    if source is None or source.stat().st_size > _CONFIG_LIMIT:
        raise LaunchError(
            f"no configuration of {prepared.plan.row.engine} at {sources[0]}",
            "install the engine there, or name its place: --python PATH",
        )
    try:
        config = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as fault:
        raise LaunchError(f"{source}: {fault}", "it should be JSON") from None
    path = folder / "config.json"
    path.write_text(json.dumps(with_settings(config, prepared.plan.settings), indent=1))
    # Its owner alone: the engine refuses anything more open.
    path.chmod(0o640)
    return path
