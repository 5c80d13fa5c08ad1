"""The reader of Dockerfiles, and that the steps of ours can be taken where no image builder runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.dockerfile import BadDockerfile, Copy, Step, expand, lineage, read_copy, read_stages

DOCKERFILE = Path(__file__).resolve().parents[3] / "deploy" / "Dockerfile"

TEXT = """
ARG BASE=python:3.11.14-slim-bookworm
# A comment.
FROM ${BASE} AS build
ENV A=1 B='two words'
RUN python -m venv /opt/x \\
    # Left out, as everywhere.
 && /opt/x/bin/pip install .
FROM build AS final
COPY --from=build /opt/x /opt/x
ENTRYPOINT ["python", "-m"]
"""


def test_stages_have_their_steps_in_order() -> None:
    """Lines that go on are one step, comments are none, and the base's arguments are put in."""
    stages = read_stages(TEXT)
    assert ["build", "final"] == list(stages)
    assert "python:3.11.14-slim-bookworm" == stages["build"].base
    environment, run = stages["build"].steps
    assert {"A": "1", "B": "two words"} == environment.assignments()
    assert ["python -m venv /opt/x", "/opt/x/bin/pip install ."] == run.commands()
    assert [stages["build"], stages["final"]] == lineage(stages, "final")


def test_steps_are_read_as_words() -> None:
    """A list in JSON and a shell's words come to the same, and a copy tells where it is from."""
    stages = read_stages(TEXT)
    entry = stages["final"].last("ENTRYPOINT")
    assert entry is not None
    assert ["python", "-m"] == entry.words()
    assert Copy(("/opt/x",), "/opt/x", "build") == read_copy(stages["final"].steps[0])
    assert Copy(("a", "b"), "./") == read_copy(Step("COPY", "a b ./"))
    assert "/opt/x/bin:/usr/bin" == expand("/opt/x/bin:$PATH", {"PATH": "/usr/bin"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("FROM x", "every stage has a name"),
        ("FROM x AS y\nADD a b", "line 2: ADD is not known"),
        ("RUN true", "before the first FROM"),
    ],
)
def test_what_is_not_known_is_refused(text: str, reason: str) -> None:
    """A step that nobody takes is never passed over in silence."""
    with pytest.raises(BadDockerfile, match=reason):
        read_stages(text)


def test_a_copy_with_an_unknown_flag_is_refused() -> None:
    """Modes and owners are not understood, so they are not ignored either."""
    with pytest.raises(BadDockerfile, match="--chown is not known"):
        read_copy(Step("COPY", "--chown=1 a b"))


def test_our_base_image_is_pinned_and_the_same_for_all() -> None:
    """Every stage begins with one image, by the tag of one patch release."""
    stages = read_stages(DOCKERFILE.read_text(encoding="utf-8"))
    bases = {stage.base for stage in stages.values() if stage.base not in stages}
    (base,) = bases
    assert base.startswith("python:3.11.")
    assert 2 == base.partition(":")[2].partition("-")[0].count(".")


@pytest.mark.parametrize("target", ["suite", "edge"])
def test_our_images_run_as_nobody_and_import_nothing_from_where_they_write(target: str) -> None:
    """The user is the one of the manifests, and the working directory, which can be written to, is on no path."""
    stages = lineage(read_stages(DOCKERFILE.read_text(encoding="utf-8")), target)
    users = [step.text for stage in stages if (step := stage.last("USER"))]
    assert ["10001:10001"] == users
    variables = [step.assignments() for stage in stages for step in stage.steps if step.instruction == "ENV"]
    assert {"1"} == {each["PYTHONSAFEPATH"] for each in variables if "PYTHONSAFEPATH" in each}
