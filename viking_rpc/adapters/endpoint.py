"""Post JSON to an HTTP endpoint: one retry where it can help, bounded time and size, and no secret in any message."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from viking_rpc.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError, VikingError, Violation

if TYPE_CHECKING:
    from collections.abc import Mapping

_OK = 200
_RETRYABLE = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_MAX_QUOTE_CHARS = 200
_N_TRIES = 2


class Endpoint:
    """One path of an HTTP service; used from one event loop.

    Args:
        base_url: http or https.
        path: appended to it.
        key: bearer token; empty means none.
        backoff_s: pause before the retry when the service does not name one.
        service: what it is for; the reasons of its errors begin so.
    """

    def __init__(
        self, base_url: str, path: str, key: str = "", backoff_s: float = 0.1, service: str = "EMBEDDER"
    ) -> None:
        """Check the address; nothing is sent yet.

        Raises:
            InvalidArgumentError: the address or the key cannot be sent.
        """
        import httpx2

        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgumentError.of([Violation("base_url", "must be an http or https address")])
        if not key.isascii() or any(c.isspace() or not c.isprintable() for c in key):
            raise InvalidArgumentError.of([Violation("key", "must be printable ASCII without spaces")])
        self._url = base_url.rstrip("/") + "/" + path
        self._key = key
        self._backoff_s = backoff_s
        self._service = service
        # Made here, not with the first request: reading the certificates takes longer than many a deadline.
        self._client = httpx2.AsyncClient()
        # One line for each request, with its address, is not for our log.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        self.origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    async def post(self, body: Mapping[str, object], stage: str, allowed_s: float) -> object:
        """Post a body and return the parsed answer. The caller bounds the whole call by `allowed_s`.

        Raises:
            UnavailableError: reason <service>_UNAVAILABLE (no connection, status 429 or 5xx, after one retry) or
                <service>_BAD_ANSWER (no JSON, too large).
            FailedPreconditionError: reason <service>_REFUSED, any other status: a retry will not help.
        """
        ends = asyncio.get_running_loop().time() + allowed_s
        for n_left in reversed(range(_N_TRIES)):
            try:
                return await self._post_once(body, stage, allowed_s)
            except UnavailableError as error:
                if error.reason != f"{self._service}_UNAVAILABLE" or not n_left:
                    raise
                pause_s = self._backoff_s if error.retry_after_s is None else error.retry_after_s
                # A retry that the caller would not live to see is not begun.
                if asyncio.get_running_loop().time() + pause_s >= ends:
                    raise
                await asyncio.sleep(pause_s)
        raise AssertionError  # pragma: no cover - the last try returns or raises

    async def close(self) -> None:
        """Close the connections; nothing can be posted after."""
        await self._client.aclose()

    async def _post_once(self, body: Mapping[str, object], stage: str, allowed_s: float) -> object:
        import httpx2

        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        answer = bytearray()
        try:
            request = self._client.stream("POST", self._url, json=dict(body), headers=headers, timeout=allowed_s)
            async with request as response:
                async for data in response.aiter_bytes():
                    answer += data
                    if len(answer) > _MAX_ANSWER_BYTES:
                        raise self._bad_answer(stage, f"is larger than {_MAX_ANSWER_BYTES} bytes")
        except httpx2.TimeoutException as error:
            raise TimeoutError from error
        except httpx2.DecodingError as error:
            raise self._bad_answer(stage, "cannot be decoded") from error
        except (httpx2.TransportError, OSError) as error:
            kind = type(error).__name__
            raise self._unavailable(stage, f"does not answer ({kind})", {"error": kind}) from error
        if response.status_code != _OK:
            raise self._refusal(stage, response.status_code, response.headers.get("retry-after", ""), bytes(answer))
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise self._bad_answer(stage, "is not JSON") from error

    def _refusal(self, stage: str, status: int, retry_after: str, answer: bytes) -> VikingError:
        metadata = {"status": str(status)}
        said = self._quote(answer)
        if said:
            metadata["said"] = said
        what = f"answered with status {status}" + (f": {said}" if said else "")
        if status in _RETRYABLE:
            return self._unavailable(stage, what, metadata, _seconds(retry_after))
        metadata |= {"stage": stage, "endpoint": self.origin}
        return FailedPreconditionError(f"{self._service}_REFUSED", f"{stage}: {self.origin} {what}", metadata)

    def _quote(self, answer: bytes) -> str:
        """Return the message of an error answer in one short line, without the key."""
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError):
            return ""
        for name in ("error", "message"):
            value = value.get(name, value) if isinstance(value, dict) else value
        text = value if isinstance(value, str) else ""
        # Replaced before cutting, so that no half of the key is left over.
        text = text.replace(self._key, "***") if self._key else text
        return "".join(c if c.isprintable() else " " for c in text)[:_MAX_QUOTE_CHARS]

    def _unavailable(
        self, stage: str, what: str, metadata: Mapping[str, str], retry_after_s: float | None = None
    ) -> UnavailableError:
        return UnavailableError(
            f"{self._service}_UNAVAILABLE",
            f"{stage}: {self.origin} {what}",
            {"stage": stage, "endpoint": self.origin, **metadata},
            retry_after_s=retry_after_s,
        )

    def _bad_answer(self, stage: str, what: str) -> UnavailableError:
        return bad_answer(stage, self.origin, what, service=self._service)


def bad_answer(
    stage: str, origin: str, what: str, metadata: Mapping[str, str] | None = None, *, service: str = "EMBEDDER"
) -> UnavailableError:
    """Return the error of an answer that came and cannot be used."""
    return UnavailableError(
        f"{service}_BAD_ANSWER",
        f"{stage}: the answer of {origin} {what}",
        {"stage": stage, "endpoint": origin, **(metadata or {})},
    )


def _seconds(retry_after: str) -> float | None:
    try:
        seconds = float(retry_after)
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
