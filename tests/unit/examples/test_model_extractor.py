"""What becomes of a model's answer, and of a provider that does not answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from examples.model_extractor import Completion, ProviderRefused, make_extractor
from qilbeedb import ConsolidationInput, ConsolidationResult

SOURCES = [{"record_id": f"00000000-0000-4000-8000-{number:012}", "revision": number} for number in (1, 2)]
SPEC = {"objective": "Link what belongs together.", "sources": SOURCES, "max_relations": 2}
GOOD = {"source": 1, "target": 2, "kind": "supports", "because": "both say so"}


class Provider:
    """Says what a test wants."""

    def __init__(self, text: str = "[]", error: Exception | None = None) -> None:
        self.text = text
        self.error = error
        self.asked: list[tuple[str, str]] = []

    def complete(self, prompt: str, *, idempotency_key: str, renew: Callable[[], None]) -> Completion:
        self.asked.append((prompt, idempotency_key))
        renew()
        if self.error is not None:
            raise self.error
        return Completion(self.text, "call-7", 10, 20, 30)


def run(provider: Provider) -> ConsolidationResult:
    records = [{"payload": {"content": {"primary": text}}} for text in ("first", "second")]
    return make_extractor(provider)(ConsolidationInput("j", "fence", SPEC, records, lambda: None))


def test_a_usable_answer() -> None:
    """Numbers become the exact references, and evidence leads to the provider's record of the call."""
    provider = Provider(json.dumps([GOOD]))
    result = run(provider)
    assert [
        {
            "source": SOURCES[0],
            "target": SOURCES[1],
            "kind": "supports",
            "valid_from_millis": None,
            "valid_until_millis": None,
            "evidence_ref": "call-7#0",
        }
    ] == result.assertions
    assert {
        "status": "reported", "model_calls": 1, "input_tokens": 10, "output_tokens": 20, "cost_microusd": 30,
    } == result.usage  # fmt: skip
    ((prompt, key),) = provider.asked
    assert "fence" == key
    assert "[1] first" in prompt
    assert "[2] second" in prompt


@pytest.mark.parametrize(
    "answer",
    [
        "I think that",
        {"source": 1},
        [GOOD] * 3,
        [{**GOOD, "source": 0}],
        [{**GOOD, "source": 3}],
        [{**GOOD, "source": True}],
        [{**GOOD, "source": 2}],
        [{**GOOD, "kind": "likes"}],
        [{**GOOD, "confidence": 1}],
        ["x"],
    ],
)
def test_an_unusable_answer(answer: Any) -> None:
    """One bad assertion fails the attempt with what it has cost; nothing of the answer is kept."""
    result = run(Provider(answer if isinstance(answer, str) else json.dumps(answer)))
    assert ([], True, "reported") == (result.assertions, result.failed, result.usage["status"])


def test_a_certain_refusal() -> None:
    """The attempt fails with what the provider says it has consumed."""
    result = run(Provider(error=ProviderRefused("call-8")))
    assert ([], True, {"status": "unknown"}, "call-8") == (
        result.assertions, result.failed, result.usage, result.evidence_ref,
    )  # fmt: skip


def test_an_uncertain_end() -> None:
    """Any other error is the worker's business, which then knows that nobody knows."""
    with pytest.raises(ConnectionError):
        run(Provider(error=ConnectionError("lost")))
