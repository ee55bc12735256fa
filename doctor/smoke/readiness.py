"""The first rungs: a living process that listens, says it is well, and lists its model."""

from __future__ import annotations

import asyncio
import time

from doctor.smoke.asking import Asker
from doctor.smoke.calls import CallFault
from doctor.smoke.client import Answer, Client
from doctor.smoke.compare import shown
from doctor.smoke.steps import Failed, Skipped
from doctor.smoke.target import Target

_SHORTEST_S, _LONGEST_S, _TRY_S, _SAY_S = 0.02, 0.5, 10.0, 10.0


class Readiness:
    """Waits for one server, no longer than it may take."""

    def __init__(self, target: Target, client: Client, asker: Asker) -> None:
        self._target = target
        self._client = client
        self._asker = asker
        self._began = self._said = time.monotonic()

    async def process(self) -> str:
        """It runs."""
        if self._target.process is None:
            raise Skipped("it was not started here")
        self._expect_alive()
        return f"pid {self._target.process.pid}"

    async def port(self) -> str:
        """It listens."""
        host, port = self._target.address
        while not await _listens(host, port):
            await self._wait("port-closed", f"nothing listens on {host}:{port}")
        return f"{host}:{port} after {time.monotonic() - self._began:.2f} s"

    async def health(self) -> str:
        """It says that it is well. Few engines run the model for that."""
        path = self._target.health
        if not path:
            raise Skipped("no health path is known for this engine")
        while True:
            seen = await self._health_once(path)
            words = f"status {seen.status}" if isinstance(seen, Answer) else seen
            if isinstance(seen, Answer):
                if seen.status == 200:
                    _expect_no_page(seen)
                    return f"{path} answers 200"
                if seen.status == 404:
                    raise Skipped(f"this server has no {path}")
                if seen.status in (401, 403):
                    raise Failed("unauthorized", f"{path} answers {seen.status}")
            await self._wait("unhealthy", f"{path}: {words}")

    async def _health_once(self, path: str) -> Answer | str:
        left = self._began + self._target.wait_s - time.monotonic()
        try:
            return await self._client.get(path, min(_TRY_S, max(left, 1.0)))
        except CallFault as fault:
            return fault.text

    async def models(self) -> str:
        """It lists the model that was asked for; the first one if none was."""
        answer = await self._client.get("/v1/models", self._target.answer_s)
        if answer.status in (404, 405):
            self._asker.model = self._asker.model or "default"
            raise Skipped("this server does not list its models")
        if answer.status in (401, 403):
            raise Failed("unauthorized", f"/v1/models answers {answer.status}")
        _expect_no_page(answer)
        listed = _model_ids(answer)
        if listed is None:
            raise Failed("not-json", f"/v1/models answers {shown(answer.text)}")
        wanted = self._asker.model
        if wanted and wanted not in listed:
            raise Failed("model-not-listed", f"it lists {', '.join(listed)[:200] or 'nothing'}")
        self._asker.model = wanted or next(iter(listed), "default")
        return self._asker.model

    async def died(self) -> str:
        """How the server ended, waiting a moment for it; "" if it lives, as far as one sees."""
        until = time.monotonic() + self._target.death_s
        while time.monotonic() < until:
            status = self._target.process.exit_status() if self._target.process else None
            if status is not None:
                return _ended(status)
            if self._target.process is None and not await _listens(*self._target.address):
                return "nothing listens any more"
            await asyncio.sleep(0.05)
        return ""

    def _expect_alive(self) -> None:
        status = self._target.process.exit_status() if self._target.process else None
        if status is not None:
            raise Failed("dead-process", _ended(status))

    async def _wait(self, fault: str, seen: str) -> None:
        """Wait a moment before the next try; raise Failed if there is no time left."""
        self._expect_alive()
        spent = time.monotonic() - self._began
        left = self._target.wait_s - spent
        if left <= 0:
            name = fault if self._target.process is None else "too-slow-to-start"
            raise Failed(name, f"after {self._target.wait_s:g} s: {seen}")
        if time.monotonic() - self._said > _SAY_S:
            self._said = time.monotonic()
            self._target.say(f"waiting, {spent:.0f} s of {self._target.wait_s:g}: {seen}")
        await asyncio.sleep(min(max(spent / 10, _SHORTEST_S), _LONGEST_S, left))


async def _listens(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), _TRY_S)
    except (OSError, asyncio.TimeoutError):
        return False
    writer.close()
    return True


def _ended(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"ended with status {status}"


def _expect_no_page(answer: Answer) -> None:
    if answer.text.lstrip()[:1] == "<":
        raise Failed("html-instead-of-json", shown(answer.text.strip().splitlines()[0]))


def _model_ids(answer: Answer) -> list[str] | None:
    """Names of the models of a list, aliases included; None for what is no list."""
    data = answer.data
    rows = data.get("data") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        return None
    names: list[str] = []
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("id"), str):
            names.append(row["id"])
            names += [a for a in row.get("aliases") or () if isinstance(a, str)]
    return list(dict.fromkeys(names))
