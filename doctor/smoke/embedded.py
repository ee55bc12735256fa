"""Run llama.cpp's server inside this Python, by the xllamacpp package: a process of its own.

    python -m doctor.smoke.embedded --model FILE --port 8080

SIGTERM and SIGINT end it. An API key comes from the environment, as for llama-server.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from typing import Any

KEY_VARIABLE = "LLAMA_API_KEY"


def options() -> argparse.ArgumentParser:
    """The command line: names as llama-server has them."""
    parser = argparse.ArgumentParser(prog="doctor.smoke.embedded", description="llama.cpp's server")
    parser.add_argument("--model", required=True)
    parser.add_argument("--alias", default="")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--ctx-size", type=int, default=0, help="for all slots together")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--n-gpu-layers", type=int, default=None)
    return parser


def main() -> None:
    """Serve until told to stop."""
    asked = options().parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        server = _serve(asked)
    except (ImportError, RuntimeError) as fault:
        # The library has printed why; a trace would only hide that.
        sys.exit(f"error: {fault}")
    print(f"device: {_device()}\nserving on {server.listening_address}", flush=True)
    stop.wait()
    # The library joins its threads for seconds when it is taken apart; nothing is lost here.
    os._exit(0)


def _device() -> str:
    """The first device that llama.cpp computes on: an accelerator if it has one."""
    import xllamacpp

    for device in xllamacpp.get_device_info():
        name = str(device.get("description") or device.get("name") or "")
        return f"the CPU ({name})" if str(device.get("name")) == "CPU" else name
    return "the CPU"


def _serve(asked: argparse.Namespace) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = asked.model
    if hasattr(params, "hostnames"):
        params.hostnames = [asked.host]
    else:  # builds before 2026-10
        params.hostname = asked.host
    params.port = asked.port
    params.n_ctx = asked.ctx_size
    params.n_parallel = asked.parallel
    params.endpoint_metrics = True
    params.ui = False
    if asked.alias:
        params.model_alias = {asked.alias}
    if asked.threads:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = asked.threads
    if asked.n_gpu_layers is not None:
        params.n_gpu_layers = asked.n_gpu_layers
    if os.environ.get(KEY_VARIABLE):
        params.api_keys = [os.environ[KEY_VARIABLE]]
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
