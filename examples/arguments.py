"""The command line that the examples share: where the server is, who works, and on which job."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable

from qilbeedb import (
    ConsolidationClient,
    ConsolidationInput,
    ConsolidationResult,
    ConsolidationStopped,
    ConsumerError,
    ExternalConsolidationWorker,
    SQLiteConsolidationJournal,
)

EXIT_AGAIN = 75


def make_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of the arguments that every example takes."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("job", help="id of the job")
    parser.add_argument("--url", default="http://127.0.0.1:7474", help="base URL of the server")
    parser.add_argument("--company", required=True, help="company of the credential in WAGGLE_KEY")
    parser.add_argument("--subject", required=True, help="subject of the credential, who owns the job")
    parser.add_argument("--project", default="default")
    parser.add_argument("--agent", default="default")
    parser.add_argument("--mission")
    parser.add_argument("--visibility", choices=("private", "shared"), default="shared")
    parser.add_argument("--worker-id", default="example-extractor", help="label that is kept with each attempt")
    parser.add_argument("--journal", required=True, help="private directory, kept between runs")
    return parser


def parse_arguments(description: str) -> argparse.Namespace:
    """Read the arguments that every example takes."""
    return make_parser(description).parse_args()


def run_job(arguments: argparse.Namespace, extractor: Callable[[ConsolidationInput], ConsolidationResult]) -> None:
    """Bring one job to its receipt, print it, and end the process with an exit code for schedulers.

    0: published or failed, as the receipt says. 75: nothing is lost, run it again. 1: a person has to look.
    """
    client = ConsolidationClient(
        arguments.url,
        lambda: os.environ.get("WAGGLE_KEY", ""),
        tenant_id=arguments.company,
        subject_id=arguments.subject,
        scope={
            "project_id": arguments.project,
            "mission_id": arguments.mission,
            "agent_id": arguments.agent,
            "visibility": arguments.visibility,
        },
    )
    worker = ExternalConsolidationWorker(
        client, SQLiteConsolidationJournal(arguments.journal), worker_id=arguments.worker_id
    )
    try:
        result = worker.run_once(arguments.job, extractor)
    except ConsolidationStopped as stop:
        print(f"stopped: {stop.code}", file=sys.stderr)
        sys.exit(1)
    except ConsumerError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        is_passing = error.status is None or error.status >= 500
        sys.exit(EXIT_AGAIN if is_passing else 1)
    print(json.dumps(result["receipt"], indent=2))
