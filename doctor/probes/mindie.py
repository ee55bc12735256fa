"""What a running MindIE serves: its daemon takes no options, they stand in a file beside it.

Source: MindIE documentation, configuration parameters of the service.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from doctor.facts import Missing, Reading, Version, missing, seen
from doctor.probes.files import relay
from doctor.probes.host import Host
from doctor.probes.stated_version import version

_LIMIT = 1 << 20
_BELOW = re.compile(r"(/.{1,400}?)/bin/mindieservice_daemon")
_RELEASE = re.compile(r"/mindie/(\d{1,2}\.\d{1,2}[\w.]{0,20})/")
_OF_MODEL = {
    "modelWeightPath": "model",
    "modelName": "served_model_name",
    "worldSize": "tensor_parallel_size",
}
_OF_DEPLOYMENT = {"maxSeqLen": "max_model_len", "maxInputTokenLen": "max_input_tokens"}


def install_folder(host: Host, program: str, folder: str) -> str:
    """The folder above the daemon's bin, "" if its command line does not lead there."""
    path = program if program.startswith("/") else f"{folder}/{program}"
    match = _BELOW.fullmatch(host.real_path(path).value or path)
    return match[1] if match else ""


def read_arguments(host: Host, install: str, env: Mapping[str, str]) -> Reading[dict[str, Any]]:
    """Model, parallel size and lengths as the file states them."""
    path = env.get("MIES_CONFIG_JSON_PATH") or (f"{install}/conf/config.json" if install else "")
    if not path:
        return missing(Missing.NOT_STATED)
    text = host.read_text(path, _LIMIT)
    if text.value is None:
        return relay(text)
    found = parse_config(text.value)
    return seen(found, path) if found else missing(Missing.NOT_READABLE, path)


def read_version(install: str) -> Reading[Version]:
    """The release that the real folder of the installation is named after."""
    match = _RELEASE.search(f"{install}/")
    found = version(match[1], width=1) if match else None
    return seen(found, install) if found else missing(Missing.NOT_STATED, install)


def parse_config(text: str) -> dict[str, Any]:
    """The service's config.json under engine-neutral names; of several models the first."""
    try:
        deployment = json.loads(text)["BackendConfig"]["ModelDeployConfig"]
        models = deployment["ModelConfig"]
        model = models[0]
        stated = {
            **{name: deployment.get(key) for key, name in _OF_DEPLOYMENT.items()},
            **{name: model.get(key) for key, name in _OF_MODEL.items()},
        }
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return {}
    return {name: value for name, value in stated.items() if isinstance(value, (str, int))}
