"""The scope that a field report speaks of."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.facts import (
    UNSTATED,
    Binary,
    CodeTarget,
    ImageRef,
    Kernels,
    Package,
    PythonInfo,
    Reading,
    Scope,
    TorchBuild,
    Version,
    seen,
)
from doctor.intake.builds import torch_build
from doctor.intake.environment import SCOPE
from doctor.intake.names import package_name
from doctor.intake.report_shm import stated_shm
from doctor.intake.stated import Stated, plain_text
from doctor.intake.told_access import told_closed, told_lost
from doctor.probes.environment import cut_secret
from doctor.probes.stated_version import version
from doctor.probes.tool_text import reading

_IMAGE = re.compile(
    r"(?<![\w/=.-])[a-z0-9][\w.-]{0,100}(?:/[\w.-]{1,100}){1,5}"
    r"(?::[\w.-]{1,128})?(?:@sha256:[0-9a-f]{64})?"
)
_BARE_IMAGE = re.compile(r"[a-z0-9][a-z0-9._-]{0,100}(?::[\w.-]{1,128})?(?![\w/])")
# The CUDA of an image in prose; that of a host or a driver is another one.
_CUDA_VERSION = re.compile(
    r"\bcuda(?:_version| version| toolkit)?[=: ]{1,2}v?(\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)\b"
    r"|\bcuda ?>= ?(\d{1,2}\.\d{1,2})"
    r"|\bcuda[- ]?(1[1-9])(?:\.x)?(?= (?:stack|runtime|librar(?:y|ies)|images?|builds?|base|"
    r"wheels?)\b)"
    r"|(?<=[:-])cuda(\d{1,2}\.\d{1,2})(?:\.\d)?(?=-)",  # the tag of an image that it is built from
    re.I,
)
_NOT_OF_IMAGE = re.compile(r"\b(?:host|driver|nvidia-smi|offers?|supports?|installed)\b", re.I)
# What the banner of NVIDIA's containers says of them.
_NGC_RELEASE = re.compile(r"\bNVIDIA Release (\d\d\.\d\d)\b")
_NGC_NAMES = (("triton", "tritonserver"), ("tensorrt", "tensorrt"), ("pytorch", "pytorch"))
# What a container was started without, in the words of people.
_LACKING = r"\b(?:without|no|not|missing|forgot|lacks?|lacking)\s(?:the\s|any\s|an?\s)?"
_NO_GPUS = re.compile(
    _LACKING + r"(?:--gpus\b|nvidia\.com/gpu|gpu (?:request|limit|resource)s?|"
    r"deploy\.resources|resources\.(?:reservations|limits)|--device[ =]nvidia\.com|"
    r"--runtime[ =]nvidia|/dev/nvidia(?:\d|ctl|\*)?(?![-\w]))"
    r"|/dev/nvidia(?:\d|ctl|\*)? (?:(?:is|are|was|were) )?(?:not|never) (?:been )?"
    r"(?:passed|there|present|mounted|mapped|bound|visible|shared)"
    r"|\b(?:container|pod|head|job|task)s? (?:has|have|had|gets?|got) no gpus?\b",
    re.I,
)
_NO_DEPLOY = re.compile(
    r"\bcompose\b[^;\n]{0,60}" + _LACKING + r"(?:deploy|device reservation|gpu reservation|gpus\b)",
    re.I,
)
# The variable by which NVIDIA's runtime hands devices over, where no option does; and a compose
# file of which all keys are told.
_NO_VARIABLE = re.compile(
    r"\bNVIDIA_VISIBLE_DEVICES\b[^.;\n]{0,10}\b(?:not set|unset|missing|empty|left out)\b|"
    + _LACKING
    + r"(?:variable )?NVIDIA_VISIBLE_DEVICES\b|"
    r"\bcompose\b[^;\n]{0,90}\b(?:only|nothing else)\b",
    re.I,
)
# A command that starts a container, up to its image: what it hands over stands before that.
_STARTS = re.compile(
    r"\b(?:docker|podman) run (?:-[^;\n]{0,400} |)[\w.-]{1,60}/[\w./-]{1,120}(?::[\w.-]{1,80})?"
)
_HANDS_OVER = re.compile(
    r"--gpus|--runtime|--device|--privileged|nvidia|/dev/(?:dri|kfd|davinci)|-cpu\b|:cpu\b|\.\.\.",
    re.I,
)
_NO_NODES = re.compile(_LACKING + r"--device\b(?: ?=? ?/dev/(?:kfd|dri))?(?! ?=? ?/)", re.I)
_OPTION = re.compile(r"--gpus|--device|\bdeploy\b|\bdevices:|reservations|capabilities", re.I)
_BY_ITS_NAME = re.compile(r"--gpus|--runtime|--privileged", re.I)
_TAG = re.compile(r"^(?:py|cp|python)(3)(\d{1,2})$", re.I)  # py312
_PYTHON = re.compile(r"(\d{1,2}(?:\.\d{1,3}){0,2}(?:a|b|rc)?\d{0,3})(t?)\b")


def stated_scope(report: Stated, packages: tuple[Package, ...]) -> Scope:
    """The one scope of a report: a container if it speaks of one, else an environment."""
    box = report.table("container")
    variants = texts(report.table("build_variant"), package_name)
    stated = texts(report.table("env"), str.strip)
    env = {name: cut_secret(name, value) for name, value in stated.items()}
    absent = report.strings("absent")
    runtime = "; ".join(filter(None, (box.text("runtime"), box.text("text"))))
    scope = Scope(
        id=SCOPE,
        kind="container" if box.data else "venv",
        image=_image(box),
        python=_python(report),
        packages=seen(packages, "packages", partial=True) if packages else UNSTATED,
        torch=_torch(packages, variants),
        binaries=_declared_code(report),
        env=seen(env, "env", partial=True) if env else UNSTATED,
        shm_mib=stated_shm(report, runtime),
        devices_visible=_devices_visible(runtime, report.strings("notes")),
        runtime=reading(runtime or None, "container"),
        variants=variants,
        built_for=texts(report.table("built_for"), package_name),
        absent=seen(absent, "absent", partial=True) if absent else UNSTATED,
        closed=told_closed(report),
        lost=told_lost(report),
        libc=_libc(report, inside=bool(not box.data or box.flag("inside"))),
    )
    box.raw("toolkit_version")
    box.note_unread()
    return scope


def _devices_visible(runtime: str, notes: tuple[str, ...]) -> Reading[tuple[str, ...]]:
    """None where that is told; in part where a whole command asks for none, or a compose file.

    A daemon may hand GPUs to every container by default.
    """
    is_without = _NO_NODES.search(runtime) and not _BY_ITS_NAME.search(runtime)
    if _NO_GPUS.search(runtime) or is_without:
        return seen((), "container")
    command = _STARTS.search(runtime)
    asks_for_none = command is not None and not _HANDS_OVER.search(runtime)
    unnamed = _NO_VARIABLE.search(runtime)
    is_unnamed = unnamed is not None and not _OPTION.search(runtime)
    if asks_for_none or is_unnamed or any(map(_NO_DEPLOY.search, (runtime, *notes))):
        return seen((), "container", partial=True)
    return UNSTATED


def texts(table: Stated, name: Callable[[str], str]) -> dict[str, str]:
    """A table of texts; `name` normalises its keys."""
    return {name(str(key)): plain_text(value) for key, value in table.data.items() if key}


def _image(box: Stated) -> ImageRef:
    """The reference of an image, apart from the prose around it."""
    stated, prose = box.text("image"), box.text("text")
    found = _IMAGE.search(stated or prose) or _BARE_IMAGE.match(stated)
    ref = found[0] if found else _of_banner(prose)
    rest = stated.replace(ref, "", 1).strip(" ,")
    if rest:
        box.note(box.at("image"), rest)
    for text, at in ((rest, box.at("image")), (prose.replace(ref, ""), box.at("text"))):
        cuda = _image_cuda(text)
        if cuda is not None:
            return ImageRef(ref=ref, cuda=seen(cuda, at))
    return ImageRef(ref=ref)


def _image_cuda(text: str) -> Version | None:
    """The CUDA version that a sentence about a container gives to it."""
    for match in _CUDA_VERSION.finditer(text):
        before = re.split(r"[,;.]\s", text[: match.start()])[-1]
        if not _NOT_OF_IMAGE.search(before):
            whole = f"{match[3]}.*" if match[3] else ""
            return version(match[1] or match[2] or whole or match[4])
    return None


def _of_banner(prose: str) -> str:
    """The image whose banner a report quotes: "Triton Inference Server, NVIDIA Release 24.08"."""
    release = _NGC_RELEASE.search(prose)
    name = next((image for word, image in _NGC_NAMES if word in prose.lower()), "")
    return f"nvcr.io/nvidia/{name}:{release[1]}-py3" if release and name else ""


def _python(report: Stated) -> Reading[PythonInfo]:
    text = report.text("python")
    found = version(_TAG.sub(r"\1.\2", text))
    if found is None:
        match = _PYTHON.search(text)
        found = version(match[1]) if match else None
    if found is None:
        if text:
            report.note("python", text)
        return UNSTATED
    free_threaded = re.search(r"\d\.\d{1,3}(?:\.\d{1,3})?t\b|free.threaded", text)
    return seen(PythonInfo(found, abi="t" if free_threaded else ""), "python")


def _torch(packages: tuple[Package, ...], variants: dict[str, str]) -> Reading[TorchBuild]:
    stated = next((p.version for p in packages if p.name == "torch"), None)
    if stated is None:
        return UNSTATED
    at = "packages.torch"
    return seen(torch_build(stated, variants.get("torch", ""), at), at)


def _declared_code(report: Stated) -> Reading[tuple[Binary, ...]]:
    """The code targets that torch.cuda.get_arch_list() names, as a statement."""
    targets: list[CodeTarget] = []
    gfx: list[str] = []
    for text in report.strings("torch_arch_list"):
        if text.startswith("gfx"):
            gfx.append(text)
            continue
        try:
            targets.append(CodeTarget.parse(text))
        except ValueError:
            report.note("torch_arch_list", text)
    if not targets and not gfx:
        return UNSTATED
    kernels = (Kernels(tuple(targets)),) if targets else ()
    binary = Binary(path="torch", package="torch", kernels=kernels, gfx=tuple(gfx), declared=True)
    return seen((binary,), "torch_arch_list", partial=True)


def _libc(report: Stated, inside: bool) -> Reading[Version]:
    """The C library, where the system that a report states is the one of the scope."""
    stated = report.table("os")
    return stated.version("glibc", width=2) if inside else UNSTATED
