"""Judges idempotency keys: what was acknowledged is there as told, what was refused is not, and keys tell the rest."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from soak.history import Attempt, FinalPlace, Json, Outcome

Group = tuple[str, str, str]


def check_attempts(attempts: Iterable[Attempt], final: Mapping[str, FinalPlace], checks: Counter[str]) -> Iterator[str]:
    """Yield a sentence for each command that did not end as its answers say.

    Args:
        attempts: In the order of their answers; every command that was not refused was sent again at the end.
        final: By marker, read after that.
        checks: Counts what was compared.
    """
    commands: dict[Group, dict[str, list[Attempt]]] = defaultdict(lambda: defaultdict(list))
    for attempt in attempts:
        commands[attempt.place, attempt.family, attempt.key][attempt.digest].append(attempt)
    for (place, family, key), by_digest in commands.items():
        stored = final.get(place, FinalPlace()).receipts.get((family, key))
        yield from (f"{place} {family} {key}: {problem}" for problem in _check_key(by_digest, stored, checks))


def _check_key(by_digest: Mapping[str, list[Attempt]], stored: Json | None, checks: Counter[str]) -> Iterator[str]:
    done = [found for found in by_digest.values() if outcome_of_command(found) == "acknowledged"]
    if len(done) > 1:
        yield "two different commands were acknowledged under it"
    for attempts in by_digest.values():
        outcome = outcome_of_command(attempts)
        if any(attempt.outcome == "unknown" for attempt in attempts):
            checks["unknown outcomes told by their keys"] += 1
        if outcome == "acknowledged":
            checks["acknowledged commands present"] += 1
            yield from _check_acknowledged(attempts, stored, checks)
        elif outcome == "unknown":
            yield "was never answered"
        elif not done:
            checks["refused commands absent"] += 1
            if stored is not None:
                yield "was refused, and its receipt lies there"


def _check_acknowledged(attempts: list[Attempt], stored: Json | None, checks: Counter[str]) -> Iterator[str]:
    texts = {attempt.text for attempt in attempts if attempt.outcome == "acknowledged"}
    checks["receipts answered byte for byte alike"] += 1
    if len(texts) != 1:
        yield f"was answered in {len(texts)} different ways"
    if stored is None:
        yield "was acknowledged, and its receipt is lost"
    elif receipt_of(texts.pop()) != stored:
        yield "was acknowledged with another receipt than the stored one"


def outcome_of_command(attempts: list[Attempt]) -> Outcome:
    """What is known of a command after all of its sendings, in their order.

    A refusal tells what became of the sendings before it: had one been carried out, its receipt would have been
    answered, and the state that it was refused for does not come back.
    """
    telling = [attempt.outcome for attempt in attempts if attempt.outcome != "busy"]
    if "acknowledged" in telling:
        return "acknowledged"
    return telling[-1] if telling else "busy"


def receipt_of(text: str) -> Json:
    """The receipt in an answer."""
    document: Json = json.loads(text)
    receipt: Json = document.get("receipt", document)
    return receipt
