"""Who and where: scopes, authors, references, and the bindings that name a client or worker in a journal."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Mapping, Optional, Tuple

from qilbeedb._checks import I64_MAX, NAME, REVISION, choice, closed, integer, nullable, uuid
from qilbeedb._errors import ConsumerProtocolError, refuse
from qilbeedb._strict_json import JsonObject

AUTHOR = closed({"credential_id": uuid, "subject_id": NAME})
SOURCE_REF = closed({"record_id": uuid, "revision": REVISION})
DEPENDENCY_WORK = closed({"records_examined": integer(0, 4096), "bytes_examined": integer(0, 16_777_216)})
COUNT = integer(0, I64_MAX)

_SCOPE = closed(
    {"project_id": NAME, "agent_id": NAME, "visibility": choice("private", "shared")}, {"mission_id": nullable(NAME)}
)


def normalize_scope(scope: Any) -> JsonObject:
    """Return a scope with all four members; an absent mission is null.

    Raises:
        ConsumerProtocolError: It is not a documented scope.
    """
    if not isinstance(scope, Mapping):
        refuse(detail="scope: must be an object")
    members = dict(scope)
    try:
        _SCOPE(members)
    except ConsumerProtocolError as error:
        error.place("scope")
        raise
    return {
        "project_id": members["project_id"],
        "mission_id": members.get("mission_id"),
        "agent_id": members["agent_id"],
        "visibility": members["visibility"],
    }


def reference_key(reference: Mapping[str, Any]) -> Tuple[str, int]:
    """Return a checked reference as a value that can be compared and hashed."""
    return reference["record_id"], reference["revision"]


def binding_digest(*parts: Any) -> str:
    """Return the SHA-256, in hexadecimal, of the parts as one compact JSON array with sorted members."""
    data = json.dumps(list(parts), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(data.encode("ascii")).hexdigest()


def check_credential(answer: Any, *, tenant_id: str, subject_id: str) -> Optional[str]:
    """Check the answer of the identity route; return the code of a mismatch with the configuration, if there is one.

    Raises:
        ConsumerProtocolError: The answer is not as documented, or the credential has been revoked.
    """
    closed({"contract_version": integer(1, 1), "credential": lambda _: None})(answer)
    credential = answer["credential"]
    if not isinstance(credential, dict) or not isinstance(credential.get("spec"), dict):
        refuse()
    found_tenant, found_subject = credential.get("tenant_id"), credential["spec"].get("subject_id")
    NAME(found_tenant)
    NAME(found_subject)
    if credential.get("revoked_at_millis") is not None:
        refuse()
    return None if (found_tenant, found_subject) == (tenant_id, subject_id) else "credential_identity_mismatch"
