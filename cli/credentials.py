"""`waggle credentials`: issue, list, show, rotate and revoke the company's credentials."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
import typer

from cli.connection import (
    DEFAULT_AGENT,
    DEFAULT_PROJECT,
    DEFAULT_URL,
    AgentOption,
    Gateway,
    JsonOption,
    KeyOption,
    MissionOption,
    ProjectOption,
    Session,
    UrlOption,
    Visibility,
    VisibilityOption,
    scope_json,
)
from cli.console import fail, out, print_json, print_table

app = typer.Typer(no_args_is_help=True, help="Company credentials; needs a key with credential_admin.")

_ROUTE = "/api/v1/credentials"
_DAY_MS = 24 * 3600 * 1000

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the credential.")]
ExpectedOption = Annotated[
    int | None, typer.Option("--expected-revision", min=1, help="Act only on this revision; default: the current one.")
]


@app.command()
def issue(
    subject: Annotated[
        str, typer.Argument(metavar="SUBJECT", help="Who will act with it; private memory belongs to this subject.")
    ],
    can: Annotated[
        list[str], typer.Option("--can", help="Capability, repeatable: memory_read, memory_write, memory_review, ...")
    ] = ["memory_read", "memory_write"],  # noqa: B006 - typer copies it
    grant: Annotated[
        list[str], typer.Option("--grant", help="Exact scope as a JSON object, repeatable; replaces the scope options.")
    ] = [],  # noqa: B006 - typer copies it
    all_scopes: Annotated[
        bool, typer.Option("--all-scopes", help="Every project, agent and mission of the company, by policy.")
    ] = False,
    no_scopes: Annotated[bool, typer.Option("--no-scopes", help="No data at all, for administrators.")] = False,
    expires_in_days: Annotated[float | None, typer.Option(help="Stop working after this many days.")] = None,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = "",
    project: ProjectOption = DEFAULT_PROJECT,
    agent: AgentOption = DEFAULT_AGENT,
    mission: MissionOption = "",
    visibility: VisibilityOption = Visibility.SHARED,
    as_json: JsonOption = False,
) -> None:
    """Issue a credential for one exact scope (or --grant, --all-scopes). Its secret is shown this once."""
    spec: dict[str, Any] = {"subject_id": subject, "capabilities": can, "grants": []}
    if all_scopes:
        everything = {"mode": "all"}
        spec["scope_policy"] = {
            "version": "company_scopes_v1",
            "projects": everything,
            "agents": everything,
            "missions": everything,
            "allow_unassigned_mission": True,
            "visibilities": ["private", "shared"],
        }
    elif grant:
        spec["grants"] = [_parse_grant(text) for text in grant]
    elif not no_scopes:
        spec["grants"] = [scope_json(project, agent, mission, visibility)]
    if expires_in_days is not None:
        spec["expires_at_millis"] = int(time.time() * 1000 + expires_in_days * _DAY_MS)
    with Session(url, key) as gateway:
        answer = gateway.post(_ROUTE, {"spec": spec})
    _print_secret(answer, as_json)


@app.command("list")
def list_credentials(
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = "",
    as_json: JsonOption = False,
) -> None:
    """List all credentials of the company, revoked ones included.

    A scope is shown as project/mission/agent/visibility, with - for no mission.
    """
    items: list[dict[str, Any]] = []
    with Session(url, key) as gateway:
        cursor = None
        while True:
            query: dict[str, str | int] = {"contract_version": 1, "limit": 100}
            if cursor:
                query["cursor"] = cursor
            page = gateway.get(_ROUTE, **query)["page"]
            items.extend(page["items"])
            cursor = page["next_cursor"]
            if not cursor:
                break
    if as_json:
        print_json(items)
        return
    rows = [
        (
            item["id"],
            item["spec"]["subject_id"],
            " ".join(item["spec"]["capabilities"]),
            _scopes_in_words(item["spec"]),
            str(item["revision"]),
            _state_in_words(item),
        )
        for item in items
    ]
    print_table(("id", "subject", "can", "scopes", "rev", "state"), rows)


@app.command()
def show(
    credential_id: IdArgument, url: UrlOption = DEFAULT_URL, key: KeyOption = "", as_json: JsonOption = False
) -> None:
    """Show one credential with its history."""
    with Session(url, key) as gateway:
        answer = gateway.get(f"{_ROUTE}/{credential_id}")
    if as_json:
        print_json(answer)
    else:
        _print_credential(answer["credential"])


@app.command()
def rotate(
    credential_id: IdArgument,
    expected_revision: ExpectedOption = None,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = "",
    as_json: JsonOption = False,
) -> None:
    """Replace the secret; the old one stops working at once. The new one is shown this once."""
    with Session(url, key) as gateway:
        revision = expected_revision or _current_revision(gateway, credential_id)
        answer = gateway.post(f"{_ROUTE}/{credential_id}/rotate", {"expected_revision": revision})
    _print_secret(answer, as_json)


@app.command()
def revoke(
    credential_id: IdArgument,
    expected_revision: ExpectedOption = None,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = "",
    as_json: JsonOption = False,
) -> None:
    """Revoke a credential for ever."""
    with Session(url, key) as gateway:
        revision = expected_revision or _current_revision(gateway, credential_id)
        answer = gateway.post(f"{_ROUTE}/{credential_id}/revoke", {"expected_revision": revision})
    if as_json:
        print_json(answer)
    else:
        _print_credential(answer["credential"])


def _current_revision(gateway: Gateway, credential_id: str) -> int:
    revision: int = gateway.get(f"{_ROUTE}/{credential_id}")["credential"]["revision"]
    return revision


def _parse_grant(text: str) -> dict[str, Any]:
    try:
        scope: dict[str, Any] = orjson.loads(text)
    except ValueError as error:
        fail(f"--grant {text}: not a JSON object: {error}", 2)
    return scope


def _print_secret(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    _print_credential(answer["credential"])
    out.print("secret        ", end="")
    out.print(answer["secret"], style="bold", markup=False)
    out.print("It is not stored and cannot be shown again.", style="dim")


def _print_credential(credential: dict[str, Any]) -> None:
    spec = credential["spec"]
    lines = {
        "id": credential["id"],
        "company": credential["tenant_id"],
        "subject": spec["subject_id"],
        "can": " ".join(spec["capabilities"]),
        "scopes": _scopes_in_words(spec),
        "revision": str(credential["revision"]),
        "state": _state_in_words(credential),
    }
    for name, value in lines.items():
        out.print(f"{name:<14}{value}", markup=False)
    for event in credential["history"]:
        moment = _moment(event["at_millis"])
        out.print(f"{'':<14}{moment}  revision {event['revision']}  {event['action']}", style="dim", markup=False)


def _scopes_in_words(spec: dict[str, Any]) -> str:
    policy = spec.get("scope_policy")
    if policy is not None:
        selectors = (
            f"{name} {'all' if policy[name]['mode'] == 'all' else ','.join(policy[name]['ids']) or 'none'}"
            for name in ("projects", "agents", "missions")
        )
        return f"policy: {'; '.join(selectors)}; {'/'.join(policy['visibilities'])}"
    return ", ".join(_scope_in_short(scope) for scope in spec["grants"]) or "none"


def _state_in_words(credential: dict[str, Any]) -> str:
    if credential["revoked_at_millis"] is not None:
        return f"revoked {_moment(credential['revoked_at_millis'])}"
    expiry = credential["spec"].get("expires_at_millis")
    if expiry is None:
        return "active"
    return f"{'expired' if expiry <= time.time() * 1000 else 'active until'} {_moment(expiry)}"


def _moment(at_millis: int) -> str:
    try:
        return datetime.fromtimestamp(at_millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        # The contract lets times be any 64-bit number; calendars end before.
        return f"{at_millis} ms"


def _scope_in_short(scope: dict[str, Any]) -> str:
    return "/".join((scope["project_id"], scope.get("mission_id") or "-", scope["agent_id"], scope["visibility"]))
