"""An administrator of a memory world's company: short calls for what it can look at and do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from services.domain.scope import Scope, Workspace, workspace_for
from services.identity.tokens import Token
from services.memory.commands import CreateRecord
from services.memory.query_company_records import InventoryPage, InventoryQuery, query_company_records
from services.memory.query_company_records_ordered import CompanyOrderedPage, query_company_records_ordered
from services.memory.query_records_ordered import OrderedQuery
from services.memory.record_filter import RecordFilter
from services.memory.retained_record import RecordView
from services.runtime.admission import release_slot
from services.storage.transaction import Transaction
from services.workspace.company_access import CompanyAccess, CompanyVisit
from services.workspace.company_directory import WorkspaceSelection
from tests.harness.memory_world import SCOPE, VERIFIER_KEY, MemoryWorld, record_input

T = TypeVar("T")

OPEN = RecordFilter()
WHOLE_COMPANY = WorkspaceSelection()


def workspace_id(scope: Scope = SCOPE, *, company: str = "acme", subject: str = "svc") -> str:
    """Id of the workspace that a subject reaches through a scope."""
    return workspace_for(company, scope, subject).partition.hex()


class Supervisor:
    """Holds `credential_admin` and nothing else.

    Attributes:
        world: What is supervised.
        access: What every call goes through.
        token: Of the administrator.
    """

    def __init__(self, world: MemoryWorld, *, company: str = "acme") -> None:
        self.world = world
        self.access = CompanyAccess(world.store, world.authority, world.slots)
        self.token = world.issue(
            company=company, subject="administrator", capabilities=("credential_admin",), grants=()
        )

    def survey(self, function: Callable[[Transaction, str], T], *, token: Token | None = None) -> T:
        """Read something of the whole company."""
        try:
            return self.access.survey(token or self.token, function)[1]
        finally:
            release_slot()

    def visit(
        self, function: Callable[[CompanyVisit], T], *, workspace: str = "", token: Token | None = None
    ) -> tuple[Workspace, T]:
        """Do something in a workspace, that of SCOPE by default."""
        try:
            return self.access.visit(token or self.token, workspace or workspace_id(), function)
        finally:
            release_slot()

    def inventory(self, narrowing: RecordFilter = OPEN, *, workspace: str = "", **members: object) -> InventoryPage:
        """A page of what a workspace retains."""
        query = InventoryQuery(narrowing, **members)  # type: ignore[arg-type]
        return self.visit(lambda visit: query_company_records(visit.partition, query), workspace=workspace)[1]

    def ordered(
        self,
        narrowing: RecordFilter = OPEN,
        *,
        selection: WorkspaceSelection = WHOLE_COMPANY,
        view: RecordView = "retained",
        cursor_key: bytes = VERIFIER_KEY,
        **members: object,
    ) -> CompanyOrderedPage:
        """A page of what the company retains, by time."""
        query = OrderedQuery(narrowing, **members)  # type: ignore[arg-type]
        return self.survey(
            lambda transaction, company_id: query_company_records_ordered(
                transaction, company_id, query, selection=selection, view=view, cursor_key=cursor_key
            )
        )


def create_in(world: MemoryWorld, scope: Scope, text: str = "hello", *, token: Token | None = None) -> str:
    """Create a record in any scope and return its id."""
    record_id: str = world.execute(CreateRecord(record_input(text)), scope=scope, token=token)["record_id"]
    return record_id
