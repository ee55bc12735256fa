"""The client against real sockets, and its readers against anything at all."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.smoke import client as client_module
from doctor.smoke.calls import CallFault, Request, Trouble, Usage, error_text, read_piece
from doctor.smoke.client import Answer, Client
from doctor.smoke.metrics import parse_metrics, pick
from doctor.smoke.secret import Secret
from tests.web import answer_raw

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


# -- what a server says, as values -------------------------------------------------------------


@given(JSON)
def test_any_json_is_a_piece_or_a_fault(data: object) -> None:
    for thing in (data, {"choices": data}, {"choices": [data]}, {"usage": data, "error": None}):
        with suppress(CallFault):
            read_piece(thing)


@given(JSON)
def test_any_logprobs_are_numbers(data: object) -> None:
    for shape in ({"content": data}, {"content": [{"logprob": data}]}, {"token_logprobs": data}):
        piece = read_piece({"choices": [{"text": "x", "logprobs": shape}]})
        assert all(isinstance(value, float) for value in piece.logprobs)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "too long", "code": 400}}, "too long"),
        ({"object": "error", "message": "flat", "code": 400}, "flat"),
        ({"error": "Unauthorized"}, "Unauthorized"),
        ({"error": "text", "error_type": "validation"}, "text"),
        ({"detail": [{"msg": "field required"}]}, "field required"),
        ([], ""),
        ("x", ""),
    ],
)
def test_all_shapes_of_errors(body: object, words: str) -> None:
    assert words in error_text(body)


def test_both_shapes_of_logprobs() -> None:
    chat = {"content": [{"token": "a", "logprob": -1.5}, {"token": "b", "logprob": None}]}
    plain = {"tokens": ["a", "b"], "token_logprobs": [-1.5, float("nan")]}
    for shape in (chat, plain):
        first, second = read_piece({"choices": [{"text": "ab", "logprobs": shape}]}).logprobs
        assert first == -1.5
        assert math.isnan(second)


def test_numbers_that_no_float_holds() -> None:
    piece = read_piece({"choices": [{"logprobs": {"token_logprobs": [10**400, -(10**400)]}}]})
    assert all(map(math.isnan, piece.logprobs))
    assert read_piece({"timings": {"a": 10**400, "b": True, "c": 1.5}}).timings == {"c": 1.5}


def test_request_bodies() -> None:
    plain = Request("m", (1, 2), max_tokens=3, logprobs=True, extra={"ignore_eos": True})
    assert plain.path == "/v1/completions"
    assert plain.body(stream=True) == {
        "model": "m",
        "prompt": [1, 2],
        "max_tokens": 3,
        "temperature": 0.0,
        "logprobs": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    chat = Request("m", messages=({"role": "user", "content": "x"},), logprobs=True)
    assert chat.path == "/v1/chat/completions"
    assert "prompt" not in chat.body(stream=False)
    assert chat.body(stream=False)["logprobs"] is True


@given(st.text())
def test_any_text_is_metrics(text: str) -> None:
    assert all(math.isfinite(value) for value in parse_metrics(text).values())


def test_metrics_are_summed_over_labels() -> None:
    text = (
        "# HELP x y\n# TYPE x counter\n"
        'vllm:generation_tokens_total{engine="0",model="a b{c}"} 3.0\n'
        'vllm:generation_tokens_total{engine="1"} 4 1700000000\n'
        "up NaN\nother 1e3\nbroken\n"
    )
    found = parse_metrics(text)
    assert found == {"vllm:generation_tokens_total": 7.0, "other": 1000.0}
    assert pick(found, ("missing", "other")) == 1000.0
    assert pick(found, ("missing",)) is None


def test_a_key_hides_itself() -> None:
    key = Secret("env:KEY", "sk-1")
    assert "sk-1" not in f"{key} {key!r}"
    assert key.hide("bad key sk-1") == "bad key <env:KEY>"


# -- real sockets ------------------------------------------------------------------------------


@contextmanager
def answering(*parts: bytes) -> Iterator[str]:
    """A server that sends these bytes to every connection, whatever is asked, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    answer_raw(connection, *parts)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_server_outlives_a_client_that_hangs_up() -> None:
    """Even where the client went before all was sent: its own test judges what it heard."""
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b"GET / HTTP/1.1\r\n\r\n")
        theirs.close()
        answer_raw(ours, b"x" * (8 << 20), b"more")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


MOVED = b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"


def asked(url: str, stream: bool) -> object:
    async def call() -> object:
        async with Client(url, timeout_s=5) as client:
            request = Request("m", "x")
            return await (client.collect(request) if stream else client.complete(request))

    return asyncio.run(call())


@pytest.mark.real
@pytest.mark.parametrize(
    ("stream", "sent", "trouble"),
    [
        (False, b"", Trouble.DROPPED),
        (False, b"SSH-2.0-OpenSSH_9.2\r\n", Trouble.DROPPED),
        (False, HEAD + b"Content-Length: 100\r\n\r\n{", Trouble.TRUNCATED),
        (False, HEAD + b"Content-Length: 3\r\n\r\n[1]", Trouble.NOT_JSON),
        (False, HEAD + b"Content-Length: 4\r\n\r\n\xff\xfe{}", Trouble.NOT_JSON),
        (False, MOVED, Trouble.HTTP_ERROR),
        (True, EVENTS, Trouble.TRUNCATED),
        (True, EVENTS + b"data: {}\n\n", Trouble.TRUNCATED),
        (True, EVENTS + b"data: {\n\n", Trouble.NOT_JSON),
        (True, EVENTS + b'{"choices": []}\n\n', Trouble.NOT_JSON),
        (True, EVENTS + b"<html>\n", Trouble.HTML),
    ],
)  # fmt: skip
def test_what_a_broken_server_sends(stream: bool, sent: bytes, trouble: Trouble) -> None:
    with answering(sent) as url, pytest.raises(CallFault) as fault:
        asked(url, stream)
    assert fault.value.trouble is trouble


@pytest.mark.real
def test_a_stream_in_any_pieces() -> None:
    events = [{"choices": [{"text": f"w{i} "}]} for i in range(50)]
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    usage = {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 50}}
    raw = "".join([*lines, f"data:{json.dumps(usage)}\r\n\r\n", "data: [DONE]\n\n"]).encode()
    parts = [raw[i : i + 61] for i in range(0, len(raw), 61)]

    async def call() -> None:
        async with Client(url, timeout_s=5) as client:
            answer = await client.collect(Request("m", "x"))
        assert answer.text == "".join(f"w{i} " for i in range(50))
        assert answer.usage == Usage(2, 50)
        assert len(answer.stamps) == 50
        assert list(answer.stamps) == sorted(answer.stamps)

    with answering(EVENTS, *parts) as url:
        asyncio.run(call())


@pytest.mark.real
def test_a_large_answer_and_one_too_large() -> None:
    body = b'"' + b"x" * (3 << 20) + b'"'
    head = HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode()

    async def call(url: str) -> Answer:
        async with Client(url, timeout_s=10) as client:
            return await client.get("/v1/models")

    with answering(head, body) as url:
        assert len(asyncio.run(call(url)).text) == len(body)
    endless = [b"x" * (1 << 20)] * ((client_module.BODY_LIMIT >> 20) + 2)
    head = HEAD + b"Connection: close\r\n\r\n"
    with answering(head, *endless) as url, pytest.raises(CallFault) as fault:
        asyncio.run(call(url))
    assert fault.value.trouble is Trouble.TOO_LONG
