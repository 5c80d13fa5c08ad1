"""Between the messages of `waggle.identity.v1` and the domain; nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.domain.scope import Scope
from services.identity.credentials import Credential, CredentialSpec, ScopeAuthority
from services.identity.scope_policy import ScopePolicy, Selector
from services.runtime.common_messages import numbers_by_word, scope_message, words_by_number
from waggle.common.v1 import scope_pb2
from waggle.identity.v1 import credentials_pb2 as pb

_VISIBILITY_WORDS = words_by_number(scope_pb2.Visibility.DESCRIPTOR)
_VISIBILITY_NUMBERS = numbers_by_word(scope_pb2.Visibility.DESCRIPTOR)
_CAPABILITY_WORDS = words_by_number(pb.Capability.DESCRIPTOR)
_CAPABILITY_NUMBERS = numbers_by_word(pb.Capability.DESCRIPTOR)
_ACTION_NUMBERS = numbers_by_word(pb.CredentialAction.DESCRIPTOR)


def spec_from(message: pb.CredentialSpec) -> CredentialSpec:
    """Read a validated spec. Repeated capabilities count once."""
    words = (_CAPABILITY_WORDS[number] for number in message.capabilities)
    return CredentialSpec(
        message.subject_id,
        tuple(dict.fromkeys(words)),
        scope_authority_from(message),
        message.expires_at_millis if message.HasField("expires_at_millis") else None,
    )


def scope_authority_from(message: pb.CredentialSpec | pb.ScopeAuthority) -> ScopeAuthority:
    """Read a validated authority. Repeated grants count once."""
    policy = _policy_from(message.scope_policy) if message.HasField("scope_policy") else None
    return ScopeAuthority(tuple(dict.fromkeys(map(_scope_from, message.grants))), policy)


def _scope_from(message: scope_pb2.Scope) -> Scope:
    mission_id = message.mission_id if message.HasField("mission_id") else None
    visibility: Any = _VISIBILITY_WORDS[message.visibility]
    return Scope(message.project_id, mission_id, message.agent_id, visibility)


def _policy_from(message: pb.CompanyScopePolicy) -> ScopePolicy:
    return ScopePolicy(
        _selector_from(message.projects),
        _selector_from(message.agents),
        _selector_from(message.missions),
        message.allow_unassigned_mission,
        tuple(_VISIBILITY_WORDS[number] for number in message.visibilities),
    )


def _selector_from(message: pb.ScopeSelector) -> Selector:
    return Selector(None if message.WhichOneof("selection") == "all" else tuple(message.only.ids))


def credential_message(credential: Credential) -> pb.Credential:
    """The sanitised credential."""
    value = credential.as_json()
    return pb.Credential(
        id=value["id"],
        tenant_id=value["tenant_id"],
        spec=_spec_message(value["spec"]),
        revision=value["revision"],
        revoked_at_millis=value["revoked_at_millis"],
        history=map(_event_message, value["history"]),
    )


def _spec_message(value: Mapping[str, Any]) -> pb.CredentialSpec:
    return pb.CredentialSpec(
        subject_id=value["subject_id"],
        capabilities=[_CAPABILITY_NUMBERS[word] for word in value["capabilities"]],
        grants=map(scope_message, value["grants"]),
        expires_at_millis=value["expires_at_millis"],
        scope_policy=_policy_message(value.get("scope_policy")),
    )


def _event_message(value: Mapping[str, Any]) -> pb.CredentialEvent:
    change = value.get("scope_authority_change")
    return pb.CredentialEvent(
        revision=value["revision"],
        action=_ACTION_NUMBERS[value["action"]],
        actor_id=value["actor_id"],
        at_millis=value["at_millis"],
        scope_authority_change=None
        if change is None
        else pb.ScopeAuthorityChange(
            previous=_authority_message(change["previous"]), current=_authority_message(change["current"])
        ),
    )


def _authority_message(value: Mapping[str, Any]) -> pb.ScopeAuthority:
    return pb.ScopeAuthority(
        grants=map(scope_message, value["grants"]), scope_policy=_policy_message(value.get("scope_policy"))
    )


def _policy_message(value: Mapping[str, Any] | None) -> pb.CompanyScopePolicy | None:
    if value is None:
        return None
    return pb.CompanyScopePolicy(
        version=pb.SCOPE_POLICY_VERSION_COMPANY_SCOPES_V1,
        projects=_selector_message(value["projects"]),
        agents=_selector_message(value["agents"]),
        missions=_selector_message(value["missions"]),
        allow_unassigned_mission=value["allow_unassigned_mission"],
        visibilities=[_VISIBILITY_NUMBERS[word] for word in value["visibilities"]],
    )


def _selector_message(value: Mapping[str, Any]) -> pb.ScopeSelector:
    if value["mode"] == "all":
        return pb.ScopeSelector(all=pb.SelectAll())
    return pb.ScopeSelector(only=pb.SelectOnly(ids=value["ids"]))
