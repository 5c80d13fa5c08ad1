"""Request validation compiled from the options in the protos."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc_tools
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

from services.domain.errors import EmbeddingDimensionLimit, InvalidRequest, UnsupportedContractVersion, WaggleError
from services.runtime.validation import compile_validator, validate

ROOT = Path(__file__).resolve().parents[3]
A = "0f8fad5b-d9cb-469f-a165-70867728950e"
B = "7c9e6679-7425-40de-944b-e07fc1f90ae7"

Build = Callable[..., Any]


@pytest.fixture(scope="session")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Compile the proto beside this file and return its classes by name."""
    output = tmp_path_factory.mktemp("rules") / "set.binpb"
    here = Path(__file__).parent
    status = protoc.main(
        [
            "protoc",
            f"-I{here}",
            f"-I{ROOT / 'protos'}",
            f"-I{Path(grpc_tools.__file__).parent / '_proto'}",
            f"--descriptor_set_out={output}",
            str(here / "rules_under_test.proto"),
        ]
    )
    assert 0 == status
    pool = descriptor_pool.Default()
    for file in descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file:
        pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    package = pool.FindFileByName("rules_under_test.proto").message_types_by_name
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in package.items()}


@pytest.fixture
def request_of(messages: dict[str, Any]) -> Build:
    """Build a request that is valid unless the given members make it bad."""

    def build(**members: Any) -> Any:
        return messages["Request"](**{"contract_version": 1, "limit": 3, "mode": 1, **members})

    return build


def refusal(request: Any) -> WaggleError:
    with pytest.raises(WaggleError) as caught:
        validate(request)
    return caught.value


def test_a_valid_request_passes_unchanged(request_of: Build) -> None:
    """A request inside all bounds passes, and validation leaves it as it was."""
    request = request_of(seed={"query": {"text": "bees"}}, record_ids=[A, B], vector=[1, -2.5], min_score=-1.0)
    before = request.SerializeToString()
    validate(request)
    assert before == request.SerializeToString()


@pytest.mark.parametrize(
    ("members", "member"),
    [
        ({"seed": {"query": {"text": ""}}}, "seed.query.text"),
        ({"seed": {"query": {"text": "   "}}}, "seed.query.text"),
        ({"seed": {"query": {"text": "a\x00b"}}}, "seed.query.text"),
        ({"seed": {"query": {"text": "a\u0085b"}}}, "seed.query.text"),
        ({"seed": {"query": {"text": "ninebytes"}}}, "seed.query.text"),
        ({"seed": {"query": {"text": "äöüßé"}}}, "seed.query.text"),
        ({"seed": {}}, "seed.query"),
        ({"record_ids": [A, "nope"]}, "record_ids[1]"),
        ({"record_ids": [A, B, A.upper()]}, "record_ids[2]"),
        ({"record_ids": [A] * 4}, "record_ids"),
        ({"sources": [{"record_id": A, "revision": 1}, {"record_id": B, "revision": 0}]}, "sources[1].revision"),
        ({"sources": [{"record_id": A, "revision": 1}, {"record_id": A, "revision": 2}]}, "sources[1]"),
        ({"limit": 0}, "limit"),
        ({"limit": 10}, "limit"),
        ({"limit": None}, "limit"),
        ({"min_score": 1.5}, "min_score"),
        ({"min_score": float("nan")}, "min_score"),
        ({"vector": [0.0, float("nan")]}, "vector[1]"),
        ({"vector": [0.0, 1.0, float("inf")]}, "vector[2]"),
        ({"vector": [0.0] * 6}, "vector"),
        ({"mode": 0}, "mode"),
        ({"mode": 7}, "mode"),
        ({"modes": [1, 0]}, "modes[1]"),
        ({"order": 7}, "order"),
        ({"choice": {}}, "choice.type"),
        ({"choice": {"plain": {"text": ""}}}, "choice.text"),
        ({"choice": {"seed": {"query": {"text": ""}}}}, "choice.query.text"),
        ({"episode_type": {}}, "episode_type"),
        ({"episode_type": {"mode": 0}}, "episode_type"),
        ({"episode_type": {"custom": ""}}, "episode_type.Custom"),
        ({"digest": "12AB"}, "digest"),
        ({"digest": "123"}, "digest"),
        ({"after": "0f8fad5bd9cb469fa16570867728950e"}, "after"),
        ({"after": A + "\n"}, "after"),
        ({"tree": {"children": [{}, {"children": [{"name": "long"}]}]}}, "tree.children[1].children[0].name"),
    ],
)
def test_a_breach_names_the_member_as_the_documented_json_spells_it(
    request_of: Build, members: dict[str, Any], member: str
) -> None:
    """Each broken rule is invalid_request, and the path leads to the member at fault."""
    error = refusal(request_of(**members))
    assert (member, InvalidRequest) == (error.member, type(error))


def test_an_enum_that_is_not_required_may_be_unset(request_of: Build) -> None:
    """The zero value of a plain enum stands for an absent member."""
    validate(request_of(order=0))


def test_another_contract_version_has_its_own_code(request_of: Build) -> None:
    """contract_version 2 is unsupported_contract_version, not invalid_request."""
    error = refusal(request_of(contract_version=2))
    assert (UnsupportedContractVersion, "contract_version") == (type(error), error.member)


def test_a_rule_can_name_its_own_code(request_of: Build) -> None:
    """`reason` replaces invalid_request."""
    error = refusal(request_of(dimensions=0))
    assert (EmbeddingDimensionLimit, "dimensions") == (type(error), error.member)


def test_uuids_become_lower_case_in_place(request_of: Build) -> None:
    """Two spellings of one UUID are one value from validation on, in single, repeated and nested fields."""
    request = request_of(after=A.upper(), record_ids=[B.upper()], sources=[{"record_id": A.upper(), "revision": 1}])
    validate(request)
    assert [A, B, A] == [request.after, request.record_ids[0], request.sources[0].record_id]


def test_a_message_without_rules_costs_nothing(messages: dict[str, Any]) -> None:
    """Internal messages have no steps, so that validating them is a look-up."""
    assert () == compile_validator(messages["Bare"].DESCRIPTOR).steps
