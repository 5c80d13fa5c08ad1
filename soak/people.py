"""Administrators and people: keys issued, rotated and revoked, accounts, logins, logouts, each seen to work at once."""

from __future__ import annotations

import itertools
import threading
from collections import Counter

from soak.caller import Caller, Exchange
from soak.history import History, Json
from tests.harness import builders
from tests.harness.suite import Suite

PASSWORD = "correct horse battery"  # noqa: S105 - of accounts that end with the run
_RESEND_AFTER_S = 0.5
_PAUSE_S = 1.0


class Gone(Exception):
    """The run ends before there was an answer."""


class Administrator:
    """Of one company. Used by one thread.

    Attributes:
        checks: What was found to hold.
    """

    def __init__(
        self, suite: Suite, caller: Caller, history: History, company_markers: set[str], stop: threading.Event
    ) -> None:
        self._suite, self._caller, self._history, self._stop = suite, caller, history, stop
        self._markers = company_markers
        self._numbers = itertools.count(1)
        self.checks: Counter[str] = Counter()

    def take_turn(self) -> None:
        """Let one key and one account live their lives."""
        try:
            self._live_as_key()
            self._live_as_account()
        except Gone:
            return
        self._stop.wait(_PAUSE_S)

    def _live_as_key(self) -> None:
        issued = self._issue()
        if issued is None:
            return
        at, first = f"credentials/{issued['credential']['id']}", issued["secret"]
        self._expect_key(first, 200)
        revision = issued["credential"]["revision"]
        rotated = self._until_answered(f"{at}/rotate", {"expected_revision": revision})
        if not rotated.is_success:
            # An unanswered rotation was made, so its secret is lost; the former must be worth nothing then.
            self._expect(rotated, 409, "a rotation is made once")
            self._expect_key(first, 401)
            return
        self._expect_key(first, 401)
        second = rotated.json["secret"]
        self._expect_key(second, 200)
        revoked = self._until_answered(f"{at}/revoke", {"expected_revision": rotated.json["credential"]["revision"]})
        if not revoked.is_success and revoked.status not in (403, 409):
            self._history.fault(f"revocation answers {revoked.status} {revoked.code}")
        self._expect_key(second, 401)

    def _live_as_account(self) -> None:
        issued = self._issue()
        if issued is None:
            return
        name = f"person {self._suite.company} {next(self._numbers)}"
        account = {"username": name, "password": PASSWORD, "credential_id": issued["credential"]["id"]}
        made = self._until_answered("login-accounts", account)
        if made.status not in (201, 409, 400):
            self._history.fault(f"a new account answers {made.status} {made.code}")
        wrong = self._login(name, PASSWORD + "!")
        self._expect(wrong, 401, "a wrong password is refused")
        right = self._login(name, PASSWORD)
        if right.code == "login_rate_limited":
            return
        self._expect(right, 200, "the right password is taken")
        if not right.is_success:
            return
        token = right.json["session"]["token"]
        self._expect_key(token, 200)
        left = self._until_answered("logout", {}, key=token)
        if not left.is_success:
            self._expect(left, 401, "a session ends once")
        self._expect_key(token, 401)

    def _issue(self) -> Json | None:
        spec = {
            "subject_id": "person", "capabilities": ["memory_read"],
            "grants": [builders.scope_json(f"project-{self._suite.company}")],
        }  # fmt: skip
        answer = self._until_answered("credentials", {"spec": spec})
        self._expect(answer, 201, "a key is issued")
        return answer.json if answer.is_success else None

    def _login(self, name: str, password: str) -> Exchange:
        body = {"tenant_id": self._suite.company, "username": name, "password": password}
        return self._until_answered("login", body, key="")

    def _expect_key(self, key: str, status: int) -> None:
        answer = self._until_answered("identity", None, key=key)
        self._expect(answer, status, "a key is worth what its last change made it")

    def _expect(self, answer: Exchange, status: int, what: str) -> None:
        self.checks[what] += 1
        if answer.status != status and answer.code != "login_rate_limited":
            self._history.fault(f"{what}: {status} was expected, {answer.status} {answer.code} came")

    def _until_answered(self, route: str, body: Json | None, *, key: str | None = None) -> Exchange:
        while True:
            whole = None if body is None else {"contract_version": 1, **body}
            answer = self._caller.send(
                "GET" if body is None else "POST", route, whole,
                key=self._suite.admin_key if key is None else key, own=frozenset(self._markers),
            )  # fmt: skip
            if not answer.is_unknown and answer.status != 503:
                return answer
            if self._stop.wait(_RESEND_AFTER_S):
                raise Gone
