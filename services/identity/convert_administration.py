"""Between the messages of global administration and the directory of agents, and the domain; nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.identity.global_credentials import GlobalCredential, GlobalSpec
from services.runtime.common_messages import author_message, numbers_by_word, scope_message, words_by_number
from waggle.identity.v1 import administration_pb2, agent_service_pb2

_CAPABILITY_WORDS = words_by_number(administration_pb2.GlobalCapability.DESCRIPTOR)
_CAPABILITY_NUMBERS = numbers_by_word(administration_pb2.GlobalCapability.DESCRIPTOR)
_ACTION_NUMBERS = numbers_by_word(administration_pb2.GlobalCredentialAction.DESCRIPTOR)
_TRIGGER_ACTION_NUMBERS = numbers_by_word(agent_service_pb2.AgentTriggerAction.DESCRIPTOR)


def global_spec_from(message: administration_pb2.GlobalCredentialSpec) -> GlobalSpec:
    """Read a validated spec. Repeated capabilities count once."""
    words = (_CAPABILITY_WORDS[number] for number in message.capabilities)
    return GlobalSpec(
        message.subject_id,
        tuple(dict.fromkeys(words)),
        message.expires_at_millis if message.HasField("expires_at_millis") else None,
    )


def global_credential_message(credential: GlobalCredential) -> administration_pb2.GlobalCredential:
    """The sanitised global credential."""
    return administration_pb2.GlobalCredential(
        id=credential.credential_id,
        spec=administration_pb2.GlobalCredentialSpec(
            subject_id=credential.spec.subject_id,
            capabilities=[_CAPABILITY_NUMBERS[word] for word in credential.spec.capabilities],
            expires_at_millis=credential.spec.expires_at_millis,
        ),
        revision=credential.revision,
        revoked_at_millis=credential.revoked_at_millis,
        history=[
            administration_pb2.GlobalCredentialEvent(
                revision=event.revision,
                action=_ACTION_NUMBERS[event.action],
                actor_id=event.actor_id,
                at_millis=event.at_millis,
            )
            for event in credential.history
        ],
        is_master=credential.is_master,
    )


def registration_message(value: Mapping[str, Any] | None) -> administration_pb2.TenantRegistration | None:
    """TenantRegistration, None for none."""
    return None if value is None else administration_pb2.TenantRegistration(**value)


def agent_message(value: Mapping[str, Any]) -> agent_service_pb2.AgentRegistration:
    """AgentRegistration."""
    return agent_service_pb2.AgentRegistration(
        agent_id=value["agent_id"],
        registered_at_millis=value["registered_at_millis"],
        registered_by=author_message(value["registered_by"]),
        first_scope=scope_message(value["first_scope"]),
        private_subject_id=value["private_subject_id"],
        trigger=_trigger_message(value["trigger"]),
    )


def _trigger_message(value: Mapping[str, Any]) -> agent_service_pb2.AgentTrigger:
    if value["kind"] == "memory_command":
        command = agent_service_pb2.MemoryCommandTrigger(
            record_id=value["record_id"], revision=value["revision"], action=_TRIGGER_ACTION_NUMBERS[value["action"]]
        )
        return agent_service_pb2.AgentTrigger(memory_command=command)
    return agent_service_pb2.AgentTrigger(successful_resource_request=agent_service_pb2.SuccessfulResourceRequest())
