"""Options that take one value are given once."""

from __future__ import annotations

from collections import Counter

import click


class OnceGroup(click.Group):
    """Refuses an option of its commands that is given twice: click would heed the last alone."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; raises UsageError for `--engine vllm --engine sglang`."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _expect_once(click.Context(command, ctx, name), rest)
        return name, command, rest


def _expect_once(ctx: click.Context, args: list[str]) -> None:
    try:
        order = ctx.command.make_parser(ctx).parse_args(list(args))[2]
    except click.UsageError as fault:
        fault.ctx = fault.ctx or ctx
        raise
    for parameter, times in Counter(order).items():
        if not isinstance(parameter, click.Option) or parameter.multiple or parameter.is_flag:
            continue
        if times > 1:
            word = max(parameter.opts, key=len)
            raise click.UsageError(f"{word} is given {times} times, and takes one value", ctx)
