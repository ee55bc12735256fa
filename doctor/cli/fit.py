"""`doctor fit`: will a model fit, and what would make it."""

from __future__ import annotations

import sys

import click

from doctor.cli.finite import Finite

FORMATS = ("text", "json")
_COUNT = click.IntRange(1, 1 << 31)
_RANKS = click.IntRange(1, 1024)


@click.command("fit")
@click.argument("model", default="")
@click.option("--engine", default="", metavar="NAME[==VER]", help="The engine that serves it.")
@click.option("--gpu", default="", metavar="NAME", help='The card: "RTX 4090", "8x H100 80GB".')
@click.option("--count", type=_RANKS, default=None, help="How many such cards.")
@click.option("--memory-gib", type=Finite(0.1, 1 << 20), help="Memory of each device.")
@click.option("--host", default="", metavar="SPEC", help='A host in words: "H100x8".')
@click.option("--facts", multiple=True, metavar="FILE", help="A snapshot, report or case.")
@click.option("--root", default="", metavar="DIR", help="A mounted system.")
@click.option(
    "--quant",
    "quantization",
    default="",
    metavar="FORMAT",
    help="Weights: awq, gptq, fp8, int8 ...",
)
@click.option("--dtype", default="", metavar="FORMAT", help="bfloat16, float16, float32.")
@click.option(
    "--kv-dtype",
    "kv_cache_dtype",
    default="",
    metavar="FORMAT",
    help="KV cache: auto, fp8, q8_0 ...",
)
@click.option(
    "--tp", "tensor_parallel_size", type=_RANKS, default=None, help="Ranks that share each layer."
)
@click.option(
    "--pp", "pipeline_parallel_size", type=_RANKS, default=None, help="Ranks of a pipeline."
)
@click.option("--max-model-len", type=_COUNT, default=None, help="Longest request in tokens.")
@click.option("--concurrency", type=_COUNT, default=None, help="Requests of that length at once.")
@click.option("--max-num-seqs", type=_COUNT, default=None, help="Sequences in one step.")
@click.option("--max-num-batched-tokens", type=_COUNT, default=None, help="Tokens in one step.")
@click.option(
    "--utilization",
    "gpu_memory_utilization",
    type=Finite(0.01, 1.0),
    help="Share of memory to use.",
)
@click.option("--enforce-eager", is_flag=True, help="No CUDA graphs.")
@click.option(
    "--gpu-layers",
    "n_gpu_layers",
    type=click.IntRange(0, 10_000),
    help="Layers on devices (llama.cpp).",
)
@click.option("--what-if", is_flag=True, help="Also a table of lengths and KV formats.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also assumptions and sources.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    engine: str,
    gpu: str,
    count: int | None,
    memory_gib: float | None,
    host: str,
    facts: tuple[str, ...],
    root: str,
    what_if: bool,
    form: str,
    verbose: bool,
    **args: object,
) -> None:
    """Say whether a model fits, how long its requests may be, and what would make it fit.

    MODEL is a config.json, a folder, a .gguf or .safetensors file, or a published name.
    Without it: what fits here. Exit 0 if it fits, 1 if not, 3 if that is too close to tell.

    \b
    Examples:
      doctor fit Qwen/Qwen3-32B --gpu "RTX 4090" --quant awq
      doctor fit ./model.gguf
      doctor fit meta-llama/Llama-3.3-70B-Instruct --gpu "H100 80GB" --count 8 --concurrency 64
      doctor fit --gpu L4
    """
    from doctor.examine import Sources
    from doctor.fitting import Question, fit
    from doctor.report.fit import render_text
    from doctor.report.fit_json import render_json
    from doctor.report.output import emit, terminal_style

    # The other options bear the names of engine-neutral arguments.
    stated = {name: value for name, value in args.items() if value not in (None, "", False)}
    sources = Sources(facts, root)
    report = fit(Question(model, engine, gpu, count, memory_gib, host, sources, stated, what_if))
    style = terminal_style(sys.stdout, verbose)
    emit(render_json(report) if form == "json" else render_text(report, style))
    ctx.exit(int(report.exit_code))
