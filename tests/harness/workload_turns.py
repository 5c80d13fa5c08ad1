"""What a client of the workload does next: a command whose effect is known, or a question whose answer is."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.harness import builders
from tests.harness.known_memory import (
    DERIVATION_DEPTH_MAX,
    Json,
    Known,
    KnownCredential,
    KnownJob,
    KnownMemory,
    KnownRecord,
    KnownRelation,
    asserted_relation,
    changed_record,
    changed_relation,
    created_record,
    payload_json,
    relation_input_json,
    reviewed_record,
)
from tests.harness.turn import Command, Question, Turn
from tests.harness.workload_questions import (
    question_of_edges,
    question_of_record,
    question_of_relation,
    question_of_vector,
    question_of_word,
)

STALE = (409, "revision_conflict")
REUSED = (409, "idempotency_conflict")
DISPOSITIONS = ("approved", "unreviewed", "rejected")
KINDS = ("supports", "contradicts", "same_entity", "causal_claim")
WORDS = ("nectar", "pollen", "brood", "queen", "drone", "comb")
EVIDENCE = {"evidence_ref": "workload:evidence"}


class TurnMaker:
    """Chooses turns for one client, the same ones for the same seed and the same answers.

    Args:
        name: Begins every key and every searchable word of this client.
        scope: Documented scope of all requests.
    """

    def __init__(self, name: str, seed: str, memory: KnownMemory, scope: Json) -> None:
        self._name, self._memory, self._scope = name, memory, scope
        self._random = random.Random(seed)
        self._count = 0
        self._done: list[Command] = []
        self._makers: list[Callable[[], Turn | None]] = []
        self._weights: list[int] = []
        for maker, weight in (
            (self._create, 6), (self._update, 4), (self._delete, 1), (self._derive, 1), (self._review, 1),
            (self._attach, 4), (self._assert, 5), (self._retire, 2), (self._restore, 1), (self._review_relation, 1),
            (self._stale_update, 1), (self._repeat, 1), (self._reuse_key, 1), (self._create_job, 1),
            (self._cancel_job, 1), (self._issue, 1), (self._revoke, 1),
            (self._read, 2), (self._inspect, 1), (self._search, 3), (self._search_vector, 1), (self._walk, 2),
        ):  # fmt: skip
            self._makers.append(maker)
            self._weights.append(weight)

    def next_turn(self) -> Turn:
        """Return what to do next."""
        (maker,) = self._random.choices(self._makers, self._weights)
        turn = maker() or self._create()
        if isinstance(turn, Command):
            self._done.append(turn)
        return turn

    def gives_up(self) -> bool:
        """Whether an unanswered command is left unsettled for now."""
        return self._random.random() < 0.4

    def _key(self) -> str:
        self._count += 1
        return f"{self._name}n{self._count}"

    def _record(self, key: str) -> Json:
        return builders.record_json(f"{self._random.choice(WORDS)} under load {key}", tags=[self._name])

    def _memory_command(self, operation: Json, key: str = "", **members: Any) -> Command:
        return Command("memory/commands", {"idempotency_key": key or self._key(), "operation": operation}, **members)

    def _relation_command(self, operation: Json, **members: Any) -> Command:
        return Command("memory/relations/commands", {"idempotency_key": self._key(), "operation": operation}, **members)

    def _create(self, key: str = "") -> Command:
        key = key or self._key()
        record = self._record(key)

        def apply(receipt: Json) -> None:
            json = created_record(receipt, payload_json(record), None)
            self._memory.records[receipt["record_id"]] = KnownRecord(json)

        return self._memory_command({"type": "create", "record": record}, key, apply=apply)

    def _derive(self) -> Command | None:
        bases = [
            record
            for record in self._memory.eligible_records()
            if self._memory.derivation_depth(record) < DERIVATION_DEPTH_MAX
        ]
        if not bases:
            return None
        sources = self._random.sample(bases, min(len(bases), 2))
        derivation = {
            "sources": [source.reference for source in sources],
            "method": "workload", "method_revision": "1", **EVIDENCE,
        }  # fmt: skip
        key = self._key()
        record = self._record(key)

        def apply(receipt: Json) -> None:
            json = created_record(receipt, payload_json(record), derivation)
            self._memory.records[receipt["record_id"]] = KnownRecord(json)

        operation = {"type": "derive", "record": record, "derivation": derivation}
        return self._memory_command(operation, key, apply=apply, touches=self._memory.with_sources(sources))

    def _update(self) -> Command | None:
        found = [record for record in self._memory.settled_records() if not record.is_deleted and not record.sources]
        if not found:
            return None
        record, key = self._random.choice(found), self._key()
        payload = self._record(key)

        def apply(receipt: Json) -> None:
            record.json = changed_record(record.json, receipt, payload_json(payload))

        operation = {"type": "update", **_expecting(record), "record": payload}
        return self._memory_command(operation, key, apply=apply, touches=[record])

    def _delete(self) -> Command | None:
        record = self._living()
        if record is None:
            return None

        def apply(receipt: Json) -> None:
            record.json = changed_record(record.json, receipt, None)

        return self._memory_command({"type": "delete", **_expecting(record)}, apply=apply, touches=[record])

    def _stale_update(self) -> Command | None:
        record = self._living()
        if record is None or record.sources:
            return None
        operation = {"type": "update", **_expecting(record), "record": self._record("refused")}
        operation["expected_revision"] += 7
        return self._memory_command(operation, touches=[record], refusal=STALE)

    def _review(self) -> Command | None:
        record = self._living()
        if record is None:
            return None

        def apply(receipt: Json) -> None:
            record.json = reviewed_record(record.json, receipt)

        command = {
            "contract_version": 1, "idempotency_key": self._key(), **_expecting(record), **EVIDENCE,
            "disposition": self._random.choice(DISPOSITIONS),
        }  # fmt: skip
        return Command("memory/reviews", {"command": command}, apply=apply, touches=[record])

    def _attach(self) -> Command | None:
        found = [record for record in self._memory.eligible_records() if not record.is_bound]
        if not found:
            return None
        record = self._random.choice(found)
        vector = [float(self._random.randint(1, 9)) for _ in range(builders.SPACE["dimensions"])]  # type: ignore[call-overload]

        def apply(receipt: Json) -> None:
            record.vector, record.binding = vector, receipt

        body = {
            "idempotency_key": self._key(), "record_id": record.id, "record_revision": record.revision,
            "space": builders.SPACE, "vector": vector,
        }  # fmt: skip
        return Command("memory/embeddings", body, apply=apply, touches=self._memory.with_sources([record]))

    def _assert(self) -> Command | None:
        found = self._memory.eligible_records()
        if len(found) < 2:
            return None
        # Among the newest, so that records have several relations each.
        ends = self._random.sample(found[-8:], 2)
        relation = {
            "source": ends[0].reference, "target": ends[1].reference, "kind": self._random.choice(KINDS),
            "provenance": builders.provenance_json(),
        }  # fmt: skip

        def apply(receipt: Json) -> None:
            json = asserted_relation(receipt, relation_input_json(relation))
            self._memory.relations[receipt["relation_id"]] = KnownRelation(json)

        touches = self._memory.with_sources(ends)
        return self._relation_command({"type": "assert", "relation": relation}, apply=apply, touches=touches)

    def _retire(self) -> Command | None:
        return self._move("retire", "active")

    def _restore(self) -> Command | None:
        return self._move("restore", "retired")

    def _move(self, verb: str, state: str) -> Command | None:
        found = [relation for relation in self._memory.settled_relations() if relation.json["state"] == state]
        if not found:
            return None
        relation = self._random.choice(found)
        is_refused = verb == "restore" and not all(map(self._memory.is_current, relation.ends))

        def apply(receipt: Json) -> None:
            relation.json = changed_relation(relation.json, receipt)

        return self._relation_command(
            {"type": verb, **_expecting_relation(relation), **EVIDENCE},
            apply=apply, touches=self._with_ends(relation), refusal=STALE if is_refused else None,
        )  # fmt: skip

    def _review_relation(self) -> Command | None:
        found = self._memory.settled_relations()
        if not found:
            return None
        relation, disposition = self._random.choice(found), self._random.choice(DISPOSITIONS)

        def apply(receipt: Json) -> None:
            relation.json = changed_relation(relation.json, receipt, disposition)

        return self._relation_command(
            {"type": "review", **_expecting_relation(relation), **EVIDENCE, "disposition": disposition},
            apply=apply, touches=self._with_ends(relation),
        )  # fmt: skip

    def _repeat(self) -> Command | None:
        found = [command for command in self._done if command.receipt is not None and command.is_repeatable]
        if not found:
            return None
        command = self._random.choice(found)
        expected = command.receipt

        def apply(receipt: Json) -> None:
            assert expected == receipt

        return Command(command.route, command.body, apply=apply)

    def _reuse_key(self) -> Command | None:
        found = [command for command in self._done if command.receipt and command.route == "memory/commands"]
        if not found:
            return None
        command = self._create(self._random.choice(found).key)
        command.body["operation"]["record"]["content"]["primary"] = "another command"
        command.refusal = REUSED
        return command

    def _create_job(self) -> Command | None:
        found = self._memory.eligible_records()
        if len(found) < 2:
            return None
        sources = self._random.sample(found, 2)
        spec = {
            "sources": [source.reference for source in sources],
            "objective": "o", "policy_ref": "p", "extractor": builders.provenance_json(),
            "max_relations": 2, "max_attempts": 1, "lease_millis": 900_000, "max_attempt_millis": 900_000,
        }  # fmt: skip

        def apply(receipt: Json) -> None:
            self._memory.jobs[receipt["job_id"]] = KnownJob(
                {"job_id": receipt["job_id"], "revision": receipt["revision"], "status": "ready"}
            )

        body = {"idempotency_key": self._key(), "operation": {"type": "create", "spec": spec}}
        touches = self._memory.with_sources(sources)
        return Command("memory/consolidation/commands", body, apply=apply, touches=touches)

    def _cancel_job(self) -> Command | None:
        found = [job for job in self._memory.jobs.values() if job.json["status"] == "ready" and not job.in_doubt]
        if not found:
            return None
        job = self._random.choice(found)

        def apply(receipt: Json) -> None:
            job.json = {**job.json, "revision": receipt["revision"], "status": "cancelled"}

        operation = {"type": "cancel", "job_id": job.json["job_id"], "expected_revision": job.revision, **EVIDENCE}
        body = {"idempotency_key": self._key(), "operation": operation}
        return Command("memory/consolidation/commands", body, apply=apply, touches=[job])

    def _issue(self) -> Command:
        def apply(receipt: Json) -> None:
            credential = receipt["credential"]
            json = {"id": credential["id"], "revision": credential["revision"], "secret": receipt["secret"]}
            self._memory.credentials[credential["id"]] = KnownCredential({**json, "is_revoked": False})

        grants = [builders.scope_json(self._name)]
        spec = {"subject_id": self._name, "capabilities": ["memory_read"], "grants": grants}
        return Command("credentials", {"spec": spec}, apply=apply, is_repeatable=False, by_administrator=True)

    def _revoke(self) -> Command | None:
        known = self._memory.credentials.values()
        found = [credential for credential in known if not credential.in_doubt and not credential.json["is_revoked"]]
        if not found:
            return None
        credential = self._random.choice(found)

        def apply(_receipt: Json) -> None:
            credential.json["is_revoked"] = True

        return Command(
            f"credentials/{credential.json['id']}/revoke", {"expected_revision": credential.revision},
            apply=apply, touches=[credential], is_repeatable=False, done_already=(403, "forbidden"),
            by_administrator=True,
        )  # fmt: skip

    def _read(self) -> Question | None:
        found = self._memory.settled_records()
        return question_of_record(self._memory, self._random.choice(found), self._scope) if found else None

    def _inspect(self) -> Question | None:
        found = self._memory.settled_relations()
        return question_of_relation(self._random.choice(found)) if found else None

    def _search(self) -> Question | None:
        found = [record for record in self._memory.settled_records() if not record.is_deleted]
        return question_of_word(self._memory, self._random.choice(found)) if found else None

    def _search_vector(self) -> Question | None:
        found = [record for record in self._memory.eligible_records() if record.is_bound]
        return question_of_vector(self._random.choice(found)) if found else None

    def _walk(self) -> Question | None:
        found = self._memory.eligible_records()
        if not found:
            return None
        record = self._random.choice(found)
        expected = self._memory.edges_at(record)
        return None if expected is None else question_of_edges(record, expected)

    def _living(self) -> KnownRecord | None:
        found = [record for record in self._memory.settled_records() if not record.is_deleted]
        return self._random.choice(found) if found else None

    def _with_ends(self, relation: KnownRelation) -> list[Known]:
        ends = [self._memory.records[end["record_id"]] for end in relation.ends]
        return [relation, *self._memory.with_sources(ends)]


def _expecting(record: KnownRecord) -> Json:
    return {"record_id": record.id, "expected_revision": record.revision}


def _expecting_relation(relation: KnownRelation) -> Json:
    return {"relation_id": relation.id, "expected_revision": relation.revision}
