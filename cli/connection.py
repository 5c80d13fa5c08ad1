"""How commands reach a suite and which scope they mean: options, each with an environment variable."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import certifi
import httpx
import typer

from cli.console import EXIT_USAGE, fail

DEFAULT_URL = "http://127.0.0.1:7474"
TIMEOUT_S = 30.0

UrlOption = Annotated[str, typer.Option("--url", envvar="WAGGLE_URL", help="Base URL of the gateway.")]
KeyOption = Annotated[
    str,
    typer.Option("--key", envvar="WAGGLE_KEY", help="Credential; better given by the variable.", show_default=False),
]
ProjectOption = Annotated[str, typer.Option("--project", envvar="WAGGLE_PROJECT", help="Project of the scope.")]
AgentOption = Annotated[str, typer.Option("--agent", envvar="WAGGLE_AGENT", help="Agent of the scope.")]
MissionOption = Annotated[
    str, typer.Option("--mission", envvar="WAGGLE_MISSION", help="Mission of the scope; empty for none.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]

DEFAULT_PROJECT = "default"
DEFAULT_AGENT = "default"


class Visibility(StrEnum):
    """Who sees a memory: the writing subject alone, or everyone with the scope."""

    PRIVATE = "private"
    SHARED = "shared"


VisibilityOption = Annotated[
    Visibility, typer.Option("--visibility", envvar="WAGGLE_VISIBILITY", help="Visibility of the scope.")
]


def scope_in_words(scope: Mapping[str, Any]) -> str:
    """Return a documented scope object as a line for people."""
    mission = scope.get("mission_id")
    return ", ".join(
        (
            f"project {scope['project_id']}",
            "no mission" if mission is None else f"mission {mission}",
            f"agent {scope['agent_id']}",
            scope["visibility"],
        )
    )


def scope_json(project: str, agent: str, mission: str, visibility: Visibility) -> dict[str, Any]:
    """Return the documented scope object; an empty mission means the scope without one."""
    return {
        "project_id": project,
        "mission_id": mission or None,
        "agent_id": agent,
        "visibility": visibility.value,
    }


class GatewayRefusal(Exception):
    """The gateway answered with an error envelope.

    Attributes:
        status: HTTP status.
        code: The documented code.
        message: Explanation for people.
        scope: The scope that was asked for, in words; empty when the request named none.
    """

    def __init__(self, status: int, code: str, message: str, scope: str = "") -> None:
        hint = ""
        if scope and code == "forbidden":
            # Options and variables that were forgotten fall back to defaults, which only the scope itself shows.
            hint = f"; asked for the scope {scope}"
        if code == "unauthorized":
            hint = "; look at the credential in WAGGLE_KEY or --key"
        super().__init__(f"{message} ({status} {code}){hint}")
        self.status = status
        self.code = code
        self.message = message
        self.scope = scope


def _known_authorities() -> ssl.SSLContext:
    """Public authorities, and those of OpenSSL: of the machine, or of SSL_CERT_FILE and SSL_CERT_DIR where set."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


class Gateway:
    """The documented JSON routes, as a client.

    Args:
        url: Base URL.
        key: Credential; empty for public routes only.
        timeout_s: Bound of one request, seconds.
    """

    def __init__(self, url: str, key: str, *, timeout_s: float = TIMEOUT_S) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        verify = _known_authorities() if url.lower().startswith("https:") else False
        self._client = httpx.Client(base_url=url, headers=headers, timeout=timeout_s, trust_env=False, verify=verify)

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, **query: str | int) -> dict[str, Any]:
        """GET a route and return the JSON object of its success.

        Raises:
            GatewayRefusal: The gateway refused.
            httpx.HTTPError: It could not be reached.
        """
        return self._object(self._client.get(path, params=query))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST a JSON object with `contract_version` 1 to a route; see `get`."""
        scope = scope_in_words(body["scope"]) if "scope" in body else ""
        return self._object(self._client.post(path, json={"contract_version": 1, **body}), scope)

    @staticmethod
    def _object(response: httpx.Response, scope: str = "") -> dict[str, Any]:
        try:
            document: dict[str, Any] = response.json()
            if response.is_success:
                return document
            error = document["error"]
            raise GatewayRefusal(response.status_code, str(error["code"]), str(error["message"]), scope)
        except (ValueError, KeyError, TypeError) as error:
            raise GatewayRefusal(
                response.status_code, "no_envelope", "what answers at this address is not a Waggle gateway"
            ) from error


class Session:
    """A gateway for one command: refusals and lost connections end it with one line and exit code 1."""

    def __init__(self, url: str, key: str) -> None:
        if not key:
            fail("no credential: set WAGGLE_KEY or pass --key", 2)
        self._url = url
        self._gateway = Gateway(url, key)

    def __enter__(self) -> Gateway:
        return self._gateway.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._gateway.__exit__()
        if isinstance(error, GatewayRefusal):
            fail(str(error))
        if isinstance(error, UnicodeEncodeError):
            fail("an argument is not UTF-8 text", EXIT_USAGE)
        if isinstance(error, httpx.UnsupportedProtocol):
            fail(f"--url {self._url}: an address like {DEFAULT_URL} is expected", 2)
        if isinstance(error, httpx.HTTPError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
            fail(f"the certificate of {self._url} is of no known authority: name its file in SSL_CERT_FILE")
        if isinstance(error, httpx.HTTPError):
            fail(f"cannot reach {self._url}: {error}; is the suite running? start it with: waggle serve")
