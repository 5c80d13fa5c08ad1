"""Generate the Python stubs, their types and the descriptor set in `waggle/` from `protos/`.

python scripts/generate_protos.py            rewrite waggle/
python scripts/generate_protos.py --check    exit 1 and name the files that differ, writing nothing
"""

from __future__ import annotations

import argparse
import filecmp
import shutil
import sys
import tempfile
from pathlib import Path

import google.api
import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
PACKAGE = ROOT / "waggle"
ERROR_DETAILS = ("google/rpc/error_details.proto", "google/rpc/status.proto")


def generate(target: Path) -> None:
    """Write the package `waggle` below `target`.

    Raises:
        SystemExit: The compiler refused a file; it has said why on standard error.
    """
    files = sorted(str(path) for path in PROTOS.rglob("*.proto"))
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    google_api = Path(next(iter(google.api.__path__))).parent.parent
    # The plugins stand beside the interpreter; protoc looks for them on PATH otherwise.
    plugins = {name: Path(sys.executable).parent / f"protoc-gen-{name}" for name in ("mypy", "mypy_grpc")}
    package = target / "waggle"
    package.mkdir(parents=True, exist_ok=True)
    paths = [f"--proto_path={path}" for path in (PROTOS, google_api, well_known)]
    _compile(
        *paths,
        *(f"--plugin=protoc-gen-{name}={path}" for name, path in plugins.items()),
        f"--python_out={target}",
        f"--grpc_python_out={target}",
        f"--mypy_out=quiet:{target}",
        f"--mypy_grpc_out=quiet:{target}",
        *files,
    )
    # With the types of error details, which no message of ours holds: Envoy's transcoder writes them as JSON.
    _compile(
        *paths,
        f"--descriptor_set_out={package / 'descriptor_set.binpb'}",
        "--include_imports",
        "--include_source_info",
        *files,
        *ERROR_DETAILS,
    )
    for directory in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (directory / "__init__.py").write_text('"""Generated from protos/. Do not edit."""\n', encoding="utf-8")
    (package / "py.typed").touch()


def _compile(*arguments: str) -> None:
    status = protoc.main(["protoc", *arguments])
    if status != 0:
        raise SystemExit(status)


def tree(directory: Path) -> set[Path]:
    """Return the files below `directory`, relative to it, without byte code."""
    return {
        path.relative_to(directory)
        for path in directory.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def main() -> int:
    """Generate or check; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with what is there and write nothing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = Path(scratch) / "waggle"
        names = tree(fresh)
        if arguments.check:
            present = tree(PACKAGE) if PACKAGE.exists() else set()
            drifted = sorted(
                str(name)
                for name in names | present
                if name not in names
                or name not in present
                or not filecmp.cmp(fresh / name, PACKAGE / name, shallow=False)
            )
            for text in drifted:
                print(f"waggle/{text} differs from what protos/ gives; run make proto", file=sys.stderr)
            return 1 if drifted else 0
        # File by file and only where something changed, so that processes that import the package are not disturbed.
        for name in (tree(PACKAGE) if PACKAGE.exists() else set()) - names:
            (PACKAGE / name).unlink()
        for name in sorted(names):
            destination = PACKAGE / name
            if not destination.exists() or not filecmp.cmp(fresh / name, destination, shallow=False):
                destination.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(fresh / name, destination)
    return 0


if __name__ == "__main__":
    sys.exit(main())
