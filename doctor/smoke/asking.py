"""Ask a server for text, in a form of prompt that it takes, and keep count of its tokens."""

from __future__ import annotations

from functools import cached_property

from doctor.smoke.calls import CallFault, Completion, Request
from doctor.smoke.client import Client
from doctor.smoke.known import NAME, KnownAnswer, KnownCase, known_answer
from doctor.smoke.target import Target

# For the user's own model: ordinary prose, which any language model continues.
PROMPTS = {
    "short": "The capital of France is",
    "long": "Water boils at a lower temperature on a high mountain, because the air there is",
}
_OWN_LENGTH = 24
# A server answers so if it does not know a path, or does not take a form of prompt.
_NOT_THIS_WAY = frozenset({400, 404, 405, 422})


class Asker:
    """Asks one server. Token ids are tried first, then text, then a chat.

    `model` is what it serves, `generated` the tokens that it gave in whole answers.
    """

    def __init__(self, client: Client, target: Target) -> None:
        self.client = client
        self.target = target
        self.model = target.model
        self.generated = 0
        self._forms = ["ids", "text", "chat"]

    @cached_property
    def known(self) -> KnownAnswer | None:
        """The known answer, if that is the model which is served. Ask once it is named."""
        said = self.target.known
        return known_answer() if (NAME in self.model if said is None else said) else None

    @property
    def path(self) -> str:
        """Where requests go."""
        return self._request("short", 1, logprobs=False).path

    async def ask(
        self,
        prompt: str = "short",
        max_tokens: int = 0,
        timeout_s: float | None = None,
        streamed: bool = False,
    ) -> Completion:
        """One answer to the prompt of that name; by default long enough for a whole one.

        Raises CallFault.
        """
        send = self.client.collect if streamed else self.client.complete
        while True:
            form, request = self._forms[0], self._request(prompt, max_tokens)
            try:
                answer = await send(request, timeout_s or self.target.answer_s)
            except CallFault as fault:
                if fault.status not in _NOT_THIS_WAY or len(self._forms) == 1:
                    raise
                if self._forms[0] == form:
                    del self._forms[0]
                continue
            self.generated += answer.usage.completion_tokens if answer.usage else 0
            return answer

    @property
    def sends_ids(self) -> bool:
        """True if the tokens of a prompt are ours and not the server's."""
        return self._forms[0] == "ids"

    async def ask_chat(self) -> tuple[Completion, KnownCase | None]:
        """The short prompt as a chat, with its reference: some give numbers there alone."""
        before, self._forms = self._forms, ["chat"]
        try:
            return await self.ask(), self.case("short")
        finally:
            self._forms = before

    def case(self, prompt: str) -> KnownCase | None:
        """The reference for a prompt in the form in use, None if there is none."""
        cases = self.known.cases if self.known else {}
        if self._forms[0] != "chat":
            return cases.get(prompt)
        return cases.get("chat") if prompt == "short" else None

    def _request(self, prompt: str, max_tokens: int, logprobs: bool = True) -> Request:
        known, form = self.known, self._forms[0]
        length = max_tokens or (len(known.tokens) + 8 if known else _OWN_LENGTH)
        text = known.cases[prompt].text if known else PROMPTS[prompt]
        if form == "chat":
            messages = ({"role": "user", "content": text},)
            return Request(self.model, "", messages, length, logprobs)
        ids = known.cases[prompt].ids if known and form == "ids" else ()
        return Request(self.model, ids or text, (), length, logprobs)
