"""Sound inputs of the text parsers, by the parser's name: what damages begin with."""

from __future__ import annotations

import json
from pathlib import Path

from doctor.facts import Facts
from doctor.intake.snapshot import write_snapshot

TESTS = Path(__file__).parent.parent
_HEX = "ab12" * 16
_DIGEST = f"sha256:{_HEX}"


def _json(*documents: object) -> tuple[str, ...]:
    return tuple(json.dumps(document, indent=1) for document in documents)


def _files(pattern: str, most: int = 12) -> tuple[str, ...]:
    paths = sorted(TESTS.glob(pattern), key=lambda path: path.stat().st_size)
    return tuple(path.read_text(errors="replace") for path in paths[:most])


_PACKAGE = f"- name: torch\n  version: 2.7.0\n  sha256: [{_HEX}]\n"
_MODEL = (
    f"model:\n  id: org/m\n  commit: {'a1' * 20}\n  wanted: main\n  files:\n"
    f"  - name: sub/model.safetensors\n    size: 12\n    sha256: {_HEX}\n"
)
_LOCK = (
    "schema: doctor/lock/v1\nprofile: vllm-nvidia\nengine: vllm\nversion: 0.9.0\n"
    f"python: '3.12'\nplatform: x86_64-manylinux_2_28\n{_MODEL}packages:\n{_PACKAGE}"
)
_HOST_LOCK = (
    "schema: doctor/host-lock/v1\nscheme: ubuntu\nbranch: 580\nmodules: open\nversion: 580.1-1\n"
    f"packages:\n- name: nvidia-open\n  version: 580.1-1\n  arch: amd64\n  sha256: {_HEX}\n"
    "  size: 9\n  origin: pool/n.deb\nholds: [nvidia-open]\nunits: [nvidia-persistenced.service]\n"
)
_PINS = f"schema: doctor/image-pins/v1\nimages:\n  python:3.11-slim linux/x86_64: {_DIGEST}\n"
_TOML = (
    '[[ignore]]\ncause = "engine-vulnerable"\nreason = "closed"\nuntil = 2027-01-31\nhost = "a*"\n'
)
_PROJECT = (
    '[project]\nname = "x"\nrequires-python = ">=3.10"\ndependencies = ["torch==2.7.0", "vllm"]\n'
    "[project.optional-dependencies]\ngpu = [\"triton>=3; sys_platform == 'linux'\"]\n"
    '[tool.uv.sources]\ntorch = { index = "pt" }\n[[tool.uv.index]]\nname = "pt"\n'
    'url = "https://download.pytorch.org/whl/cu128"\n'
)
_OLD_PROJECT = (
    '[tool.poetry]\nname = "x"\n[tool.poetry.dependencies]\npython = "^3.11"\ntorch = "2.7"\n'
)
_REQUIREMENTS = (
    "--extra-index-url https://download.pytorch.org/whl/cu128\ntorch==2.7.0 \\\n"
    f"    --hash=sha256:{_HEX}\nvllm[audio]>=0.9,<1; python_version < '3.13'\n-r more.txt\n"
    "-c bound.txt  # why\ngit+https://host/x@v1#egg=x\n./local\n"
)
_OLD_PAGE = (
    f'<!DOCTYPE html><html><body><a href="../x/vllm-0.9.0-py3-none-any.whl#sha256={_HEX}"'
    f' data-requires-python="&gt;=3.10" data-core-metadata="sha256={_HEX}">w</a><br/>\n'
    '<!-- c --><a href="http://[::1]/vllm-0.9.1.tar.gz" data-yanked>s</a><![if x]></body></html>'
)
_PAGE = {
    "meta": {"api-version": "1.1"}, "name": "vllm",
    "files": [{"filename": "vllm-0.9.0-cp312-abi3-manylinux_2_28_x86_64.whl", "url": "../v.whl",
               "hashes": {"sha256": _HEX}, "size": 9, "requires-python": ">=3.10",
               "upload-time": "2025-01-01T00:00:00Z", "yanked": False,
               "core-metadata": {"sha256": _HEX}},
              {"filename": "vllm-0.9.0.tar.gz", "url": "http://[x", "yanked": "broken"}],
}  # fmt: skip
_METADATA = (
    "Metadata-Version: 2.1\nName: vllm\nVersion: 0.9.0\nRequires-Python: <3.13,>=3.9\n"
    "Requires-Dist: torch==2.7.0\nRequires-Dist: numba; extra == 'x'\n"
    "Requires-Dist: ray[cgraph]>=2.43,!=2.44; platform_machine == 'x86_64'\n\nbody\n"
)
_INVENTORY = {
    "_meta": {"hostvars": {"gpu1": {"ansible_host": "10.0.0.1", "ansible_user": "root",
                                    "ansible_port": 22, "ansible_connection": "ssh",
                                    "ansible_ssh_common_args": "-F /etc/ssh/c"},
                           "c1": {"ansible_connection": "docker"}}},
    "all": {"children": ["ungrouped", "gpus"]}, "gpus": {"hosts": ["gpu1", "c1"]},
    "ungrouped": {"hosts": ["other"], "children": ["gpus"]},
}  # fmt: skip
_RELEASES = {
    "as_of": "2026-01-01",
    "releases": [{"version": "0.9.0", "source": ["index"], "checked": "2026-01-01",
                  "confidence": "declared-in-source", "pins": {"torch": "==2.7.0"}}],
}  # fmt: skip
_STATE = {
    "home": "/opt/doctor/x", "uid": 0, "boot": "b", "free_mib": 9, "systemd": True,
    "releases": ["a"], "current": "a", "damage": [], "models": {"m": ["a"]}, "applied": None,
    "files": {"/etc/x": {"mode": 420, "text": "a"}, "/etc/y": None},
    "processes": [{"pid": 1, "argv": ["vllm"], "config": "x"}], "unit": {"ActiveState": "active"},
    "driver": None,
}  # fmt: skip
_GOAL = {
    "profile": "p", "home": "/opt/doctor/x", "scope": "user", "engine": "vllm", "argv": ["vllm"],
    "files": [{"path": "/etc/x", "text": "a", "mode": 420}], "args": [["a", "b"]], "start_s": 9,
}  # fmt: skip
_MANIFESTS = (
    {"schemaVersion": 2, "manifests": [
        {"digest": _DIGEST, "platform": {"os": "linux", "architecture": "amd64"}},
        {"digest": _DIGEST,
         "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}}]},
    {"schemaVersion": 2, "config": {"digest": _DIGEST, "size": 9},
     "layers": [{"digest": _DIGEST, "size": 9}]},
)  # fmt: skip
_IMAGE = {
    "architecture": "amd64", "os": "linux",
    "config": {"Env": ["PATH=/bin", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"], "User": "10001",
               "Entrypoint": ["vllm"], "Cmd": ["serve"], "Labels": {"a": "b"},
               "Healthcheck": {"Test": ["CMD", "x"]}, "StopSignal": "SIGINT"},
}  # fmt: skip
_ANSWER = {
    "choices": [{"delta": {"content": "4"}, "finish_reason": "stop",
                 "logprobs": {"content": [{"logprob": -0.1}], "token_logprobs": [-0.1, None]}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1}, "timings": {"prompt_ms": 1.5},
    "error": None,
}  # fmt: skip
_BENCH = {
    "schema": "doctor/bench/v1", "model": "m",
    "lengths": {"name": "x", "digest": "y", "context": 9},
    "loads": [{"users": 4, "rate": None, "series": {"ttft": [0.1, 0.2], "e2e": [1.0]}}],
}  # fmt: skip
_JOURNAL = "".join(
    json.dumps({"event": event, "at": "2026-01-01T00:00:00.000+00:00", "step": "one"}) + "\n"
    for event in ("begin", "step", "done", "end")
)
_METRICS = (
    '# HELP vllm:x y\n# TYPE vllm:x gauge\nvllm:kv_cache_usage_perc{engine="0"} 0.5\n'
    'vllm:num_requests_running{a="}"} 3.0 1700000000000\nvllm:x_sum 1e3\nvllm:x NaN\n'
)
_MANGLED = (
    "_ZN2at6Tensor3addERKS0_",
    "_ZNSt6vectorIiSaIiEE9push_backEOi",
    "_ZTIN3c1010TensorImplE",
)

_CONFIGS = (

            {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
             "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 2048,
             "torch_dtype": "bfloat16", "tie_word_embeddings": True,
             "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}},
            {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
             "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
             "kv_lora_rank": 16, "qk_rope_head_dim": 8, "n_routed_experts": 4,
             "num_experts_per_tok": 2, "moe_intermediate_size": 32, "intermediate_size": 64,
             "vocab_size": 100, "first_k_dense_replace": 1},
            {"model_type": "x", "text_config": {"model_type": "gemma3_text", "hidden_size": 64,
             "num_hidden_layers": 6, "num_attention_heads": 4, "sliding_window": 32,
             "sliding_window_pattern": 3, "intermediate_size": 64, "vocab_size": 9}},
)  # fmt: skip

SEEDS: dict[str, tuple[str, ...]] = {
    "any input": (*_files("intake/samples/*", 6), *_files("field_reports/*.yaml", 6)),
    "snapshot": (write_snapshot(Facts()), *_files("hosts/*/facts.json", 6)),
    "field report": _files("field_reports/*.yaml", 16),
    "case file": _files("field_reports/vllm*.yaml", 8),
    "host in a line": (
        "H100x8,driver=550.54,python=3.11,ubuntu=22.04,cuda=12.4,glibc=2.35,arch=aarch64",
        "Ascend910B3x8,driver=24.1.rc3,cann=8.0.RC3,python=3.11",
        "MI300Xx8,rocm=6.2,python=3.12",
    ),
    "requirements with options": (_REQUIREMENTS,),
    "pyproject.toml": (_PROJECT, _OLD_PROJECT),
    "document": (*_files("field_reports/*.yaml", 4), *_json(_STATE, _IMAGE)),
    "log": tuple(text[:1000] for text in _files("logs/data/*.yaml", 16)),
    "profile": tuple(p.read_text() for p in sorted((TESTS.parent / "profiles").glob("*.yaml"))),
    "stack.lock": (_LOCK,),
    "host lock": (_HOST_LOCK,),
    "images.lock": (_PINS,),
    "doctor.toml": (_TOML,),
    "baseline": _json({"schema": "doctor/baseline/v1", "findings": {"a1": "x"}}),
    "pins of uv": (f"torch==2.7.0 \\\n    --hash=sha256:{_HEX}\n",),
    "pip config": ("global.index-url='https://u:p@h/simple'\n:env:.extra-index-url='a b'\n",),
    "image name": (f"registry:5000/owner/image:tag@{_DIGEST}", "python:3.11-slim", "a/b"),
    "target": ("ssh://root@host:2222", "docker://name", "local", "ssh://u@h"),
    "engine of a request": ("vllm==0.9.0", "sglang>=0.4,<0.5", "tgi"),
    "version": ("2.7.0+cu128", "1!2.0rc1.post2.dev3", "550.*", ">=0.8,<0.9", "b7474", "12.10"),
    "requirement": ("torch[x]>=2.1,<3; python_version < '3.13'", "a @ https://h/a.whl"),
    "point of a difference": ("vllm==0.9.0", "driver 580", "580.95.05"),
    "code target": ("sm_90a", "compute_120", "sm_121", "sm_103f"),
    "mangled name": _MANGLED,
    "inventory": _json(_INVENTORY),
    "journal": (_JOURNAL,),
    "run.json": _json({"verb": "apply", "profile": "p", "target": "local", "service": "local/x"}),
    "goal": _json(_GOAL),
    "state": _json(_STATE),
    "plan": _json({"schema": "doctor/plan/v1", "inputs": _HEX}),
    "daemon.json": _json({"runtimes": {"nvidia": {"path": "x"}}, "default-runtime": "nvidia"}),
    "learnt releases": _json(_RELEASES),
    "matrix row": ("as_of: 2026-01-01\nreleases:\n- {version: 1.0, source: [x], checked: x}\n",),
    "index page": _json(_PAGE),
    "old index page": (_OLD_PAGE,),
    "METADATA of a release": (_METADATA,),
    "manifest": _json(*_MANIFESTS),
    "image configuration": _json(_IMAGE),
    "files of a hub": _json({"sha": "a1" * 20, "siblings": [
        {"rfilename": "config.json", "size": 9, "blobId": "x"},
        {"rfilename": "m.safetensors", "size": 9, "lfs": {"sha256": _HEX}}]}),
    "CycloneDX": _json({"bomFormat": "CycloneDX", "components": [{"purl": "pkg:pypi/x@1"}]}),
    "model's config.json": _json(*_CONFIGS),
    "answer of an engine": _json(_ANSWER),
    "metrics": (_METRICS,),
    "smoke record": _json({"schema": "doctor/smoke-record/v1", "own": 1.5, "text": 2}),
    "bench result": _json(_BENCH),
    "lengths.jsonl": ('{"prompt_tokens": 5, "output_tokens": 9}\n{"input_len": "7", "output": 2}',),
    "lengths.csv": ('ContextTokens,GeneratedTokens\n5,9\n"7",2\n',),
    "rank's answer": ('noise\n{"ok": {"sum": 3}}\n', '{"hang": "x"}\n'),
    "argument": ("[1, 2]", "0.9", "true", "a b", '{"a": 1}'),
    "note of compat libcuda": _json({"CUDA Version": "12.8", "Driver": [535, 550], "Device": [1]}),
    "scan cache": _json([["x86_64", "a.so", ["b"], [], []], [[["l", ["V"]]], ["X"], "id"],
        [[["sm_90"], ["compute_90"]]], [[], [], [], []], ["2.17", "", ""], ["", ""]]),
}  # fmt: skip
