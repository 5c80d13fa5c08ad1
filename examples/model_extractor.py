"""An external extractor around a model, with everything of the model's provider left to the application.

    python -m examples.model_extractor --provider my_app.models:make_provider --company C --subject S ... JOB

`make_provider` is the application's: a function without arguments that returns a `Provider`. Its client, credentials,
model and prompt policy never reach the database; what the database keeps is in `spec.extractor` of the job.

What happens to an attempt:

* the provider answers, and the answer is usable: published, with the consumption that the provider reports;
* it answers with something else: failed, with that consumption;
* it refuses before doing anything (`ProviderRefused`): failed, with what it says it has consumed;
* anything else is raised, for example when a connection breaks: nobody knows whether the model ran. The worker then
  stops with `provider_outcome_unknown`, and the application finds out with the provider's own means; the attempt's id
  was given to the provider as idempotency key for that.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from examples.arguments import make_parser, run_job
from qilbeedb import ConsolidationInput, ConsolidationResult

KINDS = ("semantic_related", "same_entity", "temporal_before", "causal_claim", "supports", "contradicts")
UNKNOWN_USAGE: dict[str, Any] = {"status": "unknown"}


@dataclass(frozen=True)
class Completion:
    """What a model said, and what that has cost.

    Attributes:
        text: The answer.
        reference: The provider's id of this call, for people who look for it there.
        input_tokens: As reported.
        output_tokens: As reported.
        cost_microusd: Millionths of a dollar, None when nobody knows.
    """

    text: str
    reference: str
    input_tokens: int
    output_tokens: int
    cost_microusd: int | None = None


class ProviderRefused(Exception):
    """The provider will not do it, and says so for certain.

    Attributes:
        usage: Documented usage; unknown unless the provider reports it.
        reference: The provider's id of this call.
    """

    def __init__(self, reference: str, usage: dict[str, Any] | None = None) -> None:
        super().__init__(reference)
        self.reference = reference
        self.usage = usage or UNKNOWN_USAGE


class Provider(Protocol):
    """The application's client of its model."""

    def complete(self, prompt: str, *, idempotency_key: str, renew: Callable[[], None]) -> Completion:
        """Ask the model once.

        Args:
            prompt: The question.
            idempotency_key: The same for every call of one attempt.
            renew: Extends the lease of the attempt. Call it in this thread while waiting, for example between the
                parts of a streamed answer.

        Raises:
            ProviderRefused: Certain that there will be no answer.
        """
        ...


class _UnusableAnswer(Exception):
    """The model's answer does not say assertions in the way it was asked to."""


def make_extractor(provider: Provider) -> Callable[[ConsolidationInput], ConsolidationResult]:
    """Return an extractor that asks this provider."""

    def extract(given: ConsolidationInput) -> ConsolidationResult:
        try:
            completion = provider.complete(
                make_prompt(given.spec, given.records), idempotency_key=given.attempt_id, renew=given.renew
            )
        except ProviderRefused as refusal:
            return ConsolidationResult([], refusal.usage, refusal.reference, failed=True)
        usage = {
            "status": "reported",
            "model_calls": 1,
            "input_tokens": completion.input_tokens,
            "output_tokens": completion.output_tokens,
            "cost_microusd": completion.cost_microusd,
        }
        try:
            assertions = read_assertions(completion, given.spec)
        except _UnusableAnswer:
            return ConsolidationResult([], usage, completion.reference, failed=True)
        return ConsolidationResult(assertions, usage, completion.reference)

    return extract


def make_prompt(spec: dict[str, Any], records: list[dict[str, Any]]) -> str:
    """Say what is wanted, with the memories numbered from 1. Pure."""
    memories = "\n\n".join(
        f"[{number}] {record['payload']['content']['primary']}" for number, record in enumerate(records, start=1)
    )
    return (
        f"{spec['objective']}\n\n"
        f"Memories:\n\n{memories}\n\n"
        f"Answer with a JSON array of at most {spec['max_relations']} objects with the members source and target "
        f"(numbers of memories), kind (one of {', '.join(KINDS)}) and because (a short reason that quotes the "
        "memories). Answer [] when they support nothing."
    )


def read_assertions(completion: Completion, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Turn a model's answer into documented assertions; all of it must be usable. Pure.

    Raises:
        _UnusableAnswer: It is not.
    """
    try:
        found = json.loads(completion.text)
    except ValueError as error:
        raise _UnusableAnswer from error
    if not isinstance(found, list) or len(found) > spec["max_relations"]:
        raise _UnusableAnswer
    return [
        _read_assertion(item, spec["sources"], f"{completion.reference}#{number}") for number, item in enumerate(found)
    ]


def _read_assertion(item: Any, sources: list[dict[str, Any]], evidence_ref: str) -> dict[str, Any]:
    if not isinstance(item, dict) or set(item) != {"source", "target", "kind", "because"}:
        raise _UnusableAnswer
    ends = (item["source"], item["target"])
    if not all(type(end) is int and 1 <= end <= len(sources) for end in ends) or ends[0] == ends[1]:
        raise _UnusableAnswer
    if item["kind"] not in KINDS:
        raise _UnusableAnswer
    return {
        "source": sources[ends[0] - 1],
        "target": sources[ends[1] - 1],
        "kind": item["kind"],
        "valid_from_millis": None,
        "valid_until_millis": None,
        # The reason stays with the provider's record of the call; the reference leads to it.
        "evidence_ref": evidence_ref,
    }


def load_provider(name: str) -> Provider:
    """Return the application's provider, from MODULE:FUNCTION."""
    module, _, function = name.partition(":")
    provider: Provider = getattr(importlib.import_module(module), function)()
    return provider


if __name__ == "__main__":
    parser = make_parser(__doc__ or "")
    parser.add_argument("--provider", required=True, help="MODULE:FUNCTION of the application")
    arguments = parser.parse_args()
    run_job(arguments, make_extractor(load_provider(arguments.provider)))
