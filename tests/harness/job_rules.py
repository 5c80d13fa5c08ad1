"""What each member of the requests about jobs may be; see `member_rules`. Written by hand from the contract."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.harness import builders
from tests.harness.documented_jobs import MODEL, USAGE
from tests.harness.member_rules import MILLIS, NAME, REFERENCE, REVISION, U64_MAX, UUID, Rule, integer, text, words

Rules = dict[str, Rule]

COUNT = integer(0, U64_MAX)
RECORD_IDS = [f"00000000-0000-4000-8000-{number:012d}" for number in range(17)]
ABSENT = "00000000-0000-4000-8000-00000000dead"
UNKNOWN_USAGE = {"status": "unknown"}


def _manifest() -> Rule:
    many = [builders.reference(record_id) for record_id in RECORD_IDS]
    one = builders.reference(ABSENT)
    again = builders.reference(ABSENT.upper(), 2)
    bad: tuple[Any, ...] = ([], [one], many, [one, again], [one, {}], [one, None], [one, 1], one, "x")
    return Rule((many[:2], many[:-1]), bad)


def _usage(at: str) -> Rules:
    counts = {f"{at}.{name}": COUNT for name in ("model_calls", "input_tokens", "output_tokens")}
    near: tuple[Any, ...] = ("Reported", "reported ", "", 1, True, [])
    return {f"{at}.status": Rule(("reported",), near), **counts, f"{at}.cost_microusd": COUNT.nullable()}


def _whole_usage(*, may_be_unknown: bool) -> Rule:
    bad: tuple[Any, ...] = (
        {},
        [],
        "unknown",
        1,
        {"status": "unknown", "model_calls": 0},
        {"status": "reported"},
        {**USAGE, "more": 1},
    )
    return Rule((UNKNOWN_USAGE,), bad) if may_be_unknown else Rule((USAGE,), (*bad, UNKNOWN_USAGE))


def _extractor(at: str) -> Rules:
    names = {f"{at}.{name}": NAME for name in ("method", "method_revision")}
    return {**names, f"{at}.evidence_ref": REFERENCE}


def _reference(at: str) -> Rules:
    # Only references of the manifest are accepted, and another revision is none of them.
    return {f"{at}.record_id": replace(UUID, good=()), f"{at}.revision": replace(REVISION, good=(1,))}


_STEP = {"idempotency_key": NAME, "operation.job_id": UUID, "operation.expected_revision": REVISION}
_FENCE = {"operation.fence": UUID}
_TOLD = {"operation.evidence_ref": REFERENCE}
_SPEC, _FOUND = "operation.spec", "operation.assertions[0]"
_BAD_MODELS: tuple[Any, ...] = ("m", 1, [], {}, {**MODEL, "more": 1}, {"provider": "p", "model": "m"})

JOB_RULES: dict[str, Rules] = {
    "job-create": {
        "idempotency_key": NAME,
        f"{_SPEC}.sources": _manifest(),
        f"{_SPEC}.sources[0].record_id": UUID,
        f"{_SPEC}.sources[0].revision": REVISION,
        f"{_SPEC}.objective": text(4096),
        f"{_SPEC}.policy_ref": REFERENCE,
        **_extractor(f"{_SPEC}.extractor"),
        f"{_SPEC}.extractor.origin": words("tool_observation", "human_statement", "imported_assertion"),
        f"{_SPEC}.extractor.model": Rule((MODEL,), _BAD_MODELS).nullable(),
        f"{_SPEC}.max_relations": integer(1, 16),
        f"{_SPEC}.max_attempts": integer(1, 32),
        f"{_SPEC}.lease_millis": integer(1_000, 900_000),
        f"{_SPEC}.max_attempt_millis": integer(1_000, 86_400_000),
    },
    "job-create-inference": {
        f"{_SPEC}.extractor.model": Rule((MODEL,), _BAD_MODELS),
        **{f"{_SPEC}.extractor.model.{name}": NAME for name in MODEL},
    },
    "job-claim": {**_STEP, "operation.worker_id": NAME},
    "job-renew": {**_STEP, **_FENCE},
    "job-publish": {
        **_STEP,
        **_FENCE,
        "operation.assertions": Rule(([],), ("x", 1, {}, [1], [None], [{}])),
        **_reference(f"{_FOUND}.source"),
        **_reference(f"{_FOUND}.target"),
        f"{_FOUND}.kind": words(
            "semantic_related", "same_entity", "temporal_before", "causal_claim", "supports", "contradicts"
        ).without("temporal_before"),
        f"{_FOUND}.valid_from_millis": MILLIS.nullable(),
        f"{_FOUND}.valid_until_millis": MILLIS.nullable(),
        f"{_FOUND}.evidence_ref": REFERENCE,
        "operation.usage": _whole_usage(may_be_unknown=True),
        **_usage("operation.usage"),
        **_TOLD,
    },
    "job-fail": {
        **_STEP,
        **_FENCE,
        **_usage("operation.usage"),
        **_TOLD,
        "operation.usage": _whole_usage(may_be_unknown=True),
    },
    "job-recover": {**_STEP, **_TOLD},
    "job-cancel": {**_STEP, **_TOLD},
    "job-reconcile": {
        **_STEP,
        **_usage("operation.usage"),
        **_TOLD,
        "operation.attempt_number": integer(1, 32),
        "operation.usage": _whole_usage(may_be_unknown=False),
    },
    "job-inspect": {"job_id": UUID},
    "job-revision": {"job_id": UUID, "revision": REVISION},
    "job-query": {
        "query.limit": integer(1, 100),
        "query.scan_limit": integer(1, 1000),
        "query.after": UUID.nullable(),
        "query.status": words("ready", "running", "published", "cancelled", "exhausted").nullable(),
    },
    "job-context": {"job_id": UUID, "expected_revision": REVISION, "fence": UUID},
}


REPEATED = frozenset(
    (name, path)
    for name, rules in JOB_RULES.items()
    for path, rule in rules.items()
    for earlier in list(JOB_RULES)[: list(JOB_RULES).index(name)]
    if JOB_RULES[earlier].get(path) == rule
)
"""Route and member, where an earlier route of the table has the same member: of use in longer runs only."""
