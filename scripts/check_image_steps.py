"""Take the steps of deploy/Dockerfile in a clean directory, where no image builder runs, and start what comes of them.

python scripts/check_image_steps.py                  exit 1 and say what failed
python scripts/check_image_steps.py --renew          choose the newest versions, and write deploy/constraints.txt anew
python scripts/check_image_steps.py --keep           leave the directory there, and say where it is

Each stage has a root directory of its own; absolute paths in the steps are taken to be below it. Left out is what needs
root, such as making users; the interpreter is this machine's instead of the base image's. What is started has neither
the source tree nor this environment on its path.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from scripts.dockerfile import BadDockerfile, Copy, Stage, Step, expand, lineage, read_copy, read_stages
from scripts.image_start import Image, StartFailure, check_edge, check_suite

CONTEXT: Final = Path(__file__).resolve().parent.parent
DOCKERFILE: Final = CONTEXT / "deploy" / "Dockerfile"
IGNORED: Final = CONTEXT / "deploy" / "Dockerfile.dockerignore"
CONSTRAINTS: Final = Path("deploy/constraints.txt")

_BASE_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_NEEDS_ROOT: Final = frozenset({"groupadd", "useradd"})
_SHELL_SIGNS: Final = frozenset("|;<>&$`*")
# Downloads are kept here, unlike in an image.
_NOT_HERE: Final = frozenset({"PIP_NO_CACHE_DIR"})
_CONSTRAINTS_HEAD: Final = """\
# Every package of the two images, at the version that was tested. Written by:
#   make image-check IMAGE_CHECK=--renew
"""


class StepFailure(Exception):
    """A step failed. The message says which, and what it wrote."""


class Build:
    """The roots of the stages that were built.

    Args:
        stages: By name.
        scratch: An empty directory.
        is_free: Take the newest versions instead of the constraints.
    """

    def __init__(self, stages: dict[str, Stage], scratch: Path, *, is_free: bool) -> None:
        self._stages = stages
        self._scratch = scratch
        self._is_free = is_free
        self._roots: dict[str, Path] = {}
        self._ignored = _read_ignored(IGNORED.read_text(encoding="utf-8"))

    def root(self, name: str) -> Path:
        """Return the root of a stage, built when it was not.

        Raises:
            StepFailure, BadDockerfile: A step cannot be taken.
        """
        if name not in self._roots:
            self._roots[name] = self._take(self._stages[name])
        return self._roots[name]

    def environment(self, name: str) -> dict[str, str]:
        """Return what ENV says, with the paths of the image."""
        variables = {"PATH": _BASE_PATH}
        for stage in lineage(self._stages, name):
            for step in stage.steps:
                if step.instruction == "ENV":
                    variables |= {key: expand(value, variables) for key, value in step.assignments().items()}
        return variables

    def _take(self, stage: Stage) -> Path:
        root = self._scratch / stage.name
        if stage.base in self._stages:
            _copy_tree(self.root(stage.base), root)
            _relocate(root, self.root(stage.base), root)
        else:
            (root / "tmp").mkdir(parents=True)
        directory = root
        for earlier in lineage(self._stages, stage.name):
            for step in earlier.steps:
                if step.instruction == "WORKDIR":
                    directory = _below(root, step.text)
                    directory.mkdir(parents=True, exist_ok=True)
                elif earlier is stage and step.instruction == "COPY":
                    self._copy(read_copy(step), root, directory)
                elif earlier is stage and step.instruction == "RUN":
                    self._run(step, stage.name, root, directory)
        return root

    def _copy(self, copy: Copy, root: Path, directory: Path) -> None:
        target = _below(root, copy.target) if copy.target.startswith("/") else directory / copy.target
        for source in copy.sources:
            if copy.stage:
                origin = self.root(copy.stage)
                _copy_tree(_below(origin, source), target)
                _relocate(target, origin, root)
                continue
            allowed, names = self._ignored
            if not any(Path(source).is_relative_to(path) for path in allowed):
                raise StepFailure(f"COPY {source}: {IGNORED.name} keeps it out of the build")
            path = CONTEXT / source
            if path.is_dir():
                shutil.copytree(path, target, ignore=shutil.ignore_patterns(*names), dirs_exist_ok=True)
            else:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
                if self._is_free and Path(source) == CONSTRAINTS:
                    (target / path.name).write_text("", encoding="utf-8")

    def _run(self, step: Step, stage: str, root: Path, directory: Path) -> None:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        own = {name: value for name, value in self.environment(stage).items() if name not in {"PATH", *_NOT_HERE}}
        for command in step.commands():
            words = _as_user([_moved(root, word) for word in shlex.split(command)])
            if not words:
                print(f"  left out: {command}")
                continue
            if any(_SHELL_SIGNS & set(word) for word in words):
                raise BadDockerfile(f"RUN {command}: more of a shell than is understood here")
            print(f"  {command}", flush=True)
            done = subprocess.run(
                words, cwd=directory, env=inherited | own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
            )
            if done.returncode:
                raise StepFailure(f"{command}\n{done.stdout.decode('utf-8', 'replace')}")


def _as_user(words: list[str]) -> list[str]:
    """The words of a command as an ordinary user can run it; none when it is nothing for one."""
    if words[0] in _NEEDS_ROOT:
        return []
    if words[0] == "python":
        # Of the base image: not the one of an environment.
        return [getattr(sys, "_base_executable", sys.executable), *words[1:]]
    if words[0] == "install":
        owners = {index + offset for index, word in enumerate(words) if word in ("-o", "-g") for offset in (0, 1)}
        return [word for index, word in enumerate(words) if index not in owners]
    return words


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _moved(root: Path, word: str) -> str:
    return str(_below(root, word)) if word.startswith("/") else word


def _copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, copy_function=os.link, dirs_exist_ok=True)


def _relocate(tree: Path, old: Path, new: Path) -> None:
    """Let the programs of virtual environments name the root where they are now."""
    before, after = os.fsencode(f"{old}/"), os.fsencode(f"{new}/")
    for path in (*tree.rglob("pyvenv.cfg"), *tree.rglob("bin/*")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > 1 << 20:
            continue
        content = path.read_bytes()
        if before in content:
            # Not in place: the file is also the one of the other root.
            draft = path.with_name(f"{path.name}.draft")
            draft.write_bytes(content.replace(before, after))
            shutil.copymode(path, draft)
            draft.replace(path)


def _read_ignored(text: str) -> tuple[list[str], list[str]]:
    """Paths that a build may copy, and patterns of names that are left out of them."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    if lines[:1] != ["*"]:
        raise BadDockerfile(f"{IGNORED.name}: everything is left out first")
    allowed = [line[1:] for line in lines if line.startswith("!")]
    return allowed, [line.removeprefix("**/") for line in lines if line.startswith("**/")]


def installed_versions(roots: Iterable[Path]) -> dict[str, str]:
    """Name -> version of what is installed below these directories, but for Waggle itself."""
    paths = [str(path) for root in roots for path in root.rglob("site-packages")]
    found = {
        item.metadata["Name"].lower().replace("_", "-"): item.version for item in metadata.distributions(path=paths)
    }
    found.pop("waggle", None)
    return dict(sorted(found.items()))


def _check_versions(found: dict[str, str], *, is_free: bool) -> None:
    path = CONTEXT / CONSTRAINTS
    text = _CONSTRAINTS_HEAD + "".join(f"{name}=={version}\n" for name, version in found.items())
    if is_free:
        path.write_text(text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != text:
        wanted = set(path.read_text(encoding="utf-8").splitlines())
        differing = sorted(wanted ^ set(text.splitlines()))
        raise StepFailure(f"{CONSTRAINTS} is not what the images hold: {', '.join(differing)}; see its first lines")


def check(scratch: Path, *, is_free: bool) -> None:
    """Build both images below an empty directory and start what is in them.

    Raises:
        StepFailure, StartFailure, BadDockerfile: What failed.
    """
    stages = read_stages(DOCKERFILE.read_text(encoding="utf-8"))
    build = Build(stages, scratch, is_free=is_free)
    images = {}
    for name in ("suite", "edge"):
        print(f"{name}: the steps", flush=True)
        root = build.root(name)
        entry = next(step for stage in reversed(lineage(stages, name)) if (step := stage.last("ENTRYPOINT")))
        workdir = next(step for stage in reversed(lineage(stages, name)) if (step := stage.last("WORKDIR")))
        images[name] = Image(root, build.environment(name), entry.words(), _below(root, workdir.text))
    _check_versions(installed_versions(image.root for image in images.values()), is_free=is_free)
    print("suite: starting it", flush=True)
    check_suite(images["suite"], CONTEXT)
    print("edge: starting it", flush=True)
    check_edge(images["edge"], CONTEXT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--renew", action="store_true", help="choose the newest versions, and pin them")
    parser.add_argument("--keep", action="store_true", help="leave the directory there")
    flags = parser.parse_args(arguments)
    scratch = Path(tempfile.mkdtemp(prefix="waggle-image-"))
    try:
        check(scratch, is_free=flags.renew)
    except (StepFailure, StartFailure, BadDockerfile) as error:
        print(f"The image cannot be built or started: {error}", file=sys.stderr)
        return 1
    finally:
        if flags.keep:
            print(f"kept: {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    print("Both images can be built, and what is in them starts.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
