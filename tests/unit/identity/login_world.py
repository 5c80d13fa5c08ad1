"""Companies with login accounts over a store in memory, with clocks to move and passwords that are cheap to hash."""

from __future__ import annotations

from services.domain import keys
from services.domain.scope import IDENTITY_PARTITION
from services.identity.attempt_window import AttemptWindow
from services.identity.authority import Authority
from services.identity.bootstrap import bootstrap_master, bootstrap_tenant
from services.identity.credential_commands import CredentialCommand, IssueCredential, apply_command, make_key
from services.identity.credentials import CREDENTIAL_ADMIN, Credential
from services.identity.login_account_commands import (
    CreateLoginAccount,
    LoginAccountCommand,
    apply_account_command,
    committed_account_change,
)
from services.identity.login_accounts import LoginAccount
from services.identity.login_admission import LoginAdmission
from services.identity.logins import Logins, OpenedSession
from services.identity.password_workers import PasswordWorkers
from services.identity.passwords import Passwords
from services.identity.tokens import Token, parse_token
from services.runtime.identifiers import new_uuid
from services.storage.core import LocalStore
from services.storage.transaction import Transaction, run_transaction
from tests.harness.clock import FakeClock
from tests.unit.identity.builders import KEY, ForgetfulStore, spec

PASSWORD = "correct horse"
CHEAP = Passwords(KEY, time_cost=1, memory_kib=8)


class CountingPasswords(Passwords):
    """Passwords that count comparisons."""

    def __init__(self) -> None:
        super().__init__(KEY, time_cost=1, memory_kib=8)
        self.compared: list[str | None] = []

    def is_right(self, password: str, password_hash: str | None) -> bool:
        self.compared.append(password_hash)
        return super().is_right(password, password_hash)


class LoginWorld:
    """Two companies and a master.

    Attributes:
        clock: The store's.
        attempts_clock: Of the bounds on failed logins.
        logins: The subject.
    """

    def __init__(self) -> None:
        self.clock, self.attempts_clock = FakeClock(), FakeClock(0)
        self.local = LocalStore.in_memory(clock=self.clock)
        self.store = ForgetfulStore(self.local)
        self.authority = Authority(KEY)
        self.passwords, self.workers = CountingPasswords(), PasswordWorkers()
        self.logins = Logins(
            self.store,  # type: ignore[arg-type]
            KEY,
            self.authority,
            self.passwords,
            self.workers,
            LoginAdmission(self.attempts_clock, AttemptWindow()),
        )
        self.admins = {
            company: parse_token(bootstrap_tenant(self.local, KEY, tenant_id=company, subject_id="root")["secret"])
            for company in ("acme", "other")
        }
        self.master = parse_token(bootstrap_master(self.local, KEY, subject_id="operator")["secret"])

    def close(self) -> None:
        self.workers.close()
        self.local.close()

    def change(self, command: CredentialCommand, company: str = "acme") -> Credential:
        """Carry out a command on credentials as the company's administrator."""
        admin = self.admins[company]

        def run(transaction: Transaction) -> Credential:
            principal = self.authority.authorize(transaction, admin, capabilities=(CREDENTIAL_ADMIN,))
            return apply_command(transaction, principal, command)

        return run_transaction(self.store, run)  # type: ignore[arg-type]

    def issue(self, company: str = "acme", **members: object) -> Credential:
        """Issue a credential."""
        return self.change(IssueCredential(spec=spec(**members), key=make_key(KEY, new_uuid())), company)  # type: ignore[arg-type]

    def run(self, command: LoginAccountCommand, company: str | None = "acme") -> LoginAccount:
        """Carry out a command on accounts as the service does, for an authorized caller."""
        actor_id = (self.master if company is None else self.admins[company]).credential_id

        def run(transaction: Transaction) -> LoginAccount:
            found = committed_account_change(transaction, command)
            return found or apply_account_command(transaction, company, actor_id, command)

        return run_transaction(self.store, run)  # type: ignore[arg-type]

    def create(self, username: str, credential_id: str, company: str | None = "acme") -> LoginAccount:
        """Make an account with PASSWORD."""
        command = CreateLoginAccount(username=username, credential_id=credential_id, password_hash=CHEAP.hash(PASSWORD))
        return self.run(command, company)

    def login(self, username: str, password: str = PASSWORD, company: str | None = "acme") -> OpenedSession:
        return self.logins.open(company, username, password)

    def who(self, token: Token) -> str:
        """Id of the credential that a token acts with; raises Unauthorized."""
        return run_transaction(
            self.local, lambda transaction: self.authority.authenticate(transaction, token).credential_id
        )

    def session_count(self, credential_id: str) -> int:
        """How many sessions of a credential are stored, over or not."""
        prefix = keys.session_prefix(credential_id)
        return len(
            run_transaction(
                self.local,
                lambda transaction: transaction.scan(IDENTITY_PARTITION, prefix, keys.prefix_end(prefix)),
            )
        )
