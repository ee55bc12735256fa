"""The one name that each engine, package and system goes by here."""

from __future__ import annotations

import re

from doctor.facts import OsRelease

_ENGINES = {
    "pytorch": "torch",
    "trt-llm": "tensorrt-llm",
    "trtllm": "tensorrt-llm",
    "tensorrtllm": "tensorrt-llm",
    "text-generation-inference": "tgi",
    "text-embeddings-inference": "tei",
    "llama-cpp": "llama.cpp",
    "llamacpp": "llama.cpp",
    "llama-server": "llama.cpp",
    "llama-cpp-python": "llama-cpp-python",
    "onnxruntime-gpu": "onnxruntime",
    "onnx-runtime": "onnxruntime",
    "vllm-npu": "vllm-ascend",
    "mlx-lm": "mlx",
    "mindie-llm": "mindie",
    "mindie-service": "mindie",
    "trt": "tensorrt",
}
_PACKAGES = {
    "flashinfer": "flashinfer-python",
    "flash-attention": "flash-attn",
    "pytorch": "torch",
    "trt-llm": "tensorrt-llm",
    "trtllm": "tensorrt-llm",
    "huggingface-transformers": "transformers",
    "llama-cpp": "llama.cpp",
    "llamacpp": "llama.cpp",
    "text-generation-inference": "tgi",
}
# Words that name a system in free text, most telling first, with its os-release id and family.
_SYSTEMS = (
    ("red hat", "rhel", ("fedora",)),
    ("rhel", "rhel", ("fedora",)),
    ("rocky", "rocky", ("rhel", "centos", "fedora")),
    ("alma", "almalinux", ("rhel", "centos", "fedora")),
    ("centos", "centos", ("rhel", "fedora")),
    ("oracle", "ol", ("fedora",)),
    ("amazon linux", "amzn", ("fedora",)),
    ("fedora", "fedora", ()),
    ("ubuntu", "ubuntu", ("debian",)),
    ("linux mint", "linuxmint", ("ubuntu", "debian")),
    ("pop!_os", "pop", ("ubuntu", "debian")),
    ("debian", "debian", ()),
    ("dgx os", "ubuntu", ("debian",)),
    ("openeuler", "openEuler", ()),
    ("euleros", "euleros", ()),
    ("kylin", "kylin", ()),
    ("tencentos", "tencentos", ("rhel", "fedora", "centos")),
    ("alibaba", "alinux", ("rhel", "fedora", "centos")),
    ("anolis", "anolis", ("rhel", "fedora", "centos")),
    ("opensuse", "opensuse", ("suse",)),
    ("suse", "sles", ("suse",)),
    ("sles", "sles", ("suse",)),
    ("manjaro", "manjaro", ("arch",)),
    ("cachyos", "cachyos", ("arch",)),
    ("arch", "arch", ()),
    ("gentoo", "gentoo", ()),
    ("alpine", "alpine", ()),
    ("nixos", "nixos", ()),
    ("talos", "talos", ()),
    ("container-optimized", "cos", ()),
    ("windows", "windows", ()),
    ("macos", "macos", ()),
    ("mac os", "macos", ()),
)
_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64"}


def system_names() -> tuple[str, ...]:
    """os-release IDs of the systems that are recognised in free text."""
    return tuple(dict.fromkeys(name for _, name, _ in _SYSTEMS))


def package_name(name: str) -> str:
    """The normalised distribution name (PEP 503), shorthands resolved; "llama.cpp" stays."""
    lowered = re.sub(r"[-_.\s]+", "-", name.strip().lower())[:200]
    return _PACKAGES.get(lowered, lowered)


def engine_name(name: str) -> str:
    """The name of an engine as the rest of doctor knows it; unknown ones in lower case."""
    lowered = re.sub(r"[-_.\s]+", "-", name.strip().lower())[:100]
    if lowered == "vllm-cpp":
        return "vllm.cpp"
    return _ENGINES.get(lowered, lowered)


def machine_name(text: str) -> str:
    """The kernel's name of a processor architecture: "amd64" is x86_64."""
    word = text.strip().split()[0].lower() if text.strip() else ""
    return _MACHINES.get(word, word)


def machine_of_chips(*texts: str) -> str:
    """The architecture that the name of an Apple chip tells ("Apple M2 Pro"), "" for any other."""
    return "arm64" if any(map(_APPLE_CHIP.search, texts)) else ""


_APPLE_CHIP = re.compile(r"\bApple M\d\b|\bApple Silicon\b", re.IGNORECASE)


def platform_of_kernel(kernel: str) -> str | None:
    """WSL and Jetson, which the kernel's release gives away; None for any other."""
    lowered = kernel.lower()
    if "wsl2" in lowered or "microsoft-standard" in lowered:
        return "wsl2"
    return "jetson" if "tegra" in lowered else None


def os_release(distro: str, version: str) -> OsRelease | None:
    """Recognise a system in free text; None if nothing is stated."""
    text = f"{distro} {version}".strip()
    if not text:
        return None
    lowered = distro.lower()
    number = version or _first_number(distro)
    for word, name, like in _SYSTEMS:
        if word in lowered:
            return OsRelease(name, number.split()[0] if number else "", like, text)
    return OsRelease(lowered.split()[0] if lowered else "linux", number, (), text)


def _first_number(text: str) -> str:
    match = re.search(r"(?<![\w.])\d{1,9}(?:\.\d{1,9}){0,3}(?![\w.])", text)
    return match[0] if match else ""
