"""How to speak with a server, found out before anything is measured.

Which model, which interface, whether answers can be given a fixed length, how many tokens
a word makes, how long a request may be.
"""

from __future__ import annotations

import secrets
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from doctor.errors import DoctorError
from doctor.smoke.bench.ask import BenchAsk
from doctor.smoke.bench.lengths import Lengths, Pair
from doctor.smoke.bench.prompts import Measure, Prose, measured
from doctor.smoke.calls import CallFault, Completion, Request, Trouble
from doctor.smoke.client import Client
from doctor.smoke.secret import Secret

# A server answers so if it does not know a path, or does not take a form of request.
_NOT_THIS_WAY = frozenset({400, 404, 405, 415, 422, 501})
_TOO_LONG = frozenset({400, 413, 422, 500})
_FEW, _MANY = 8, 40
_SHORTEST_CONTEXT, _REFINEMENTS = 16, 2
_WORDS = 300
# Words make a few tokens more or less than measured.
_MARGIN = 0.95


@dataclass(frozen=True)
class Terms:
    """The terms of one server.

    `forced` says that it takes a wish for answers of a fixed length; `context` is how many
    tokens a request may have, None if nothing that was asked for is too long.
    """

    model: str
    chat: bool = False
    forced: bool = True
    measure: Measure = field(default_factory=lambda: Measure(0.0, 1.0))
    context: int | None = None

    def request(self, prose: Prose, pair: Pair) -> Request:
        """A request of about these lengths."""
        return self.of_words(prose.words(self.measure.words(pair[0])), pair[1])

    def of_words(self, text: str, output: int) -> Request:
        """A request with this prompt."""
        extra = {"ignore_eos": True} if self.forced else {}
        if self.chat:
            messages = ({"role": "user", "content": text},)
            return Request(self.model, messages=messages, max_tokens=output, extra=extra)
        return Request(self.model, text, max_tokens=output, extra=extra)


async def agree(client: Client, ask: BenchAsk) -> tuple[Terms, Lengths]:
    """Find the terms, and the lengths cut to what the server takes. Raises DoctorError."""
    prose = Prose(secrets.token_hex(8))
    try:
        model, declared = await _served(client, ask.model)
        terms, few = await _form(client, ask, model, prose)
        many = await client.collect(terms.of_words(prose.words(_MANY), 1))
        measure = measured((_FEW, _prompt_tokens(few)), (_MANY, _prompt_tokens(many)))
        terms = replace(terms, measure=measure)
        return await _fitted(client, replace(terms, context=declared), prose, ask.lengths)
    except CallFault as fault:
        raise _no_terms(fault, ask.key) from None


def _no_terms(fault: CallFault, key: Secret) -> DoctorError:
    # A server that loads its model, or has too much to do.
    waits = fault.status == 503
    hints = {
        Trouble.UNAUTHORIZED: "--api-key env:NAME or file:PATH",
        Trouble.REFUSED: "does the server run? doctor smoke URL tells more",
        Trouble.TIMED_OUT: "is it loading? allow more with --timeout",
    }
    status = f" {fault.status}" if fault.status not in (0, 200) else ""
    words = key.hide(fault.text)[:_WORDS]
    text = f"the server cannot be measured: {fault.trouble.value}{status}: {words}"
    hint = "try again when it is ready" if waits else hints.get(fault.trouble)
    return DoctorError(text, hint or "doctor smoke URL tells more")


async def _served(client: Client, wanted: str) -> tuple[str, int | None]:
    """The model, and how many tokens its list says a request may have.

    The first that is listed if none is wanted; "" without a list: many servers need no name.
    """
    answer = await client.get("/v1/models")
    if answer.status in (401, 403):
        raise CallFault(Trouble.UNAUTHORIZED, "it wants an API key", answer.status)
    data = answer.data
    listed = data.get("data") if isinstance(data, dict) else None
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    if not wanted:
        names = (row.get("id") for row in rows)
        wanted = next((name for name in names if isinstance(name, str)), "")
    row = next((row for row in rows if row.get("id") == wanted), {})
    return wanted, _declared(row)


def _declared(row: dict[str, Any]) -> int | None:
    """The length of a request, as vLLM and SGLang or llama.cpp put it."""
    meta = row.get("meta")
    places = (row.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None)
    return next((p for p in places if isinstance(p, int) and p >= _SHORTEST_CONTEXT), None)


async def _form(
    client: Client, ask: BenchAsk, model: str, prose: Prose
) -> tuple[Terms, Completion]:
    """The first interface that answers, completions before chat; the first answer with it."""
    chats = (False, True) if ask.chat is None else (ask.chat,)
    refusal: CallFault | None = None
    for chat, forced in product(chats, (True, False)):
        terms = Terms(model, chat, forced)
        try:
            return terms, await client.collect(terms.of_words(prose.words(_FEW), 1))
        except CallFault as fault:
            if fault.status not in _NOT_THIS_WAY:
                raise
            refusal = refusal or fault
    raise refusal or CallFault(Trouble.NOT_JSON, "no way to ask")


def _prompt_tokens(answer: Completion) -> int:
    if answer.usage is None or answer.usage.prompt_tokens <= 0:
        raise DoctorError(
            "streams of this server do not say how many tokens they had: nothing can be counted",
            "an engine whose streams honour stream_options.include_usage",
        )
    return answer.usage.prompt_tokens


async def _fitted(
    client: Client, terms: Terms, prose: Prose, lengths: Lengths
) -> tuple[Terms, Lengths]:
    """Try the longest request; if it is refused, search for what is taken."""
    asked, terms, lengths = lengths, *_cut(terms, lengths)
    if await _takes(client, terms, prose, lengths.longest):
        return terms, lengths
    lengths, top = asked, sum(lengths.longest)
    low, high = top, top
    while low > _SHORTEST_CONTEXT:
        low //= 2
        if await _takes(client, terms, prose, lengths.fit(low).longest):
            break
        high = low
    else:
        raise DoctorError("the server refuses even the shortest requests", "--lengths 8x8")
    for _ in range(_REFINEMENTS):
        middle = (low + high) // 2
        taken = await _takes(client, terms, prose, lengths.fit(middle).longest)
        low, high = (middle, high) if taken else (low, middle)
    return _cut(replace(terms, context=low), lengths)


def _cut(terms: Terms, lengths: Lengths) -> tuple[Terms, Lengths]:
    """Lengths that fit the context; terms without one where all did anyway."""
    if terms.context is None or sum(lengths.longest) <= terms.context * _MARGIN:
        return replace(terms, context=None), lengths
    context = int(terms.context * _MARGIN)
    return replace(terms, context=context), lengths.fit(context)


async def _takes(client: Client, terms: Terms, prose: Prose, pair: Pair) -> bool:
    """Tell whether a request of these lengths begins to be answered."""
    try:
        async with aclosing(client.stream(terms.request(prose, pair))) as pieces:
            async for _ in pieces:
                return True
    except CallFault as fault:
        if fault.status not in _TOO_LONG:
            raise
        return False
    return True
