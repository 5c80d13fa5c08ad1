"""Between the messages of human login and the domain; nothing else."""

from __future__ import annotations

from services.identity.login_accounts import LoginAccount
from services.identity.logins import OpenedSession
from services.runtime.common_messages import numbers_by_word
from waggle.identity.v1 import login_pb2

_ACTION_NUMBERS = numbers_by_word(login_pb2.LoginAccountAction.DESCRIPTOR)


def account_message(account: LoginAccount) -> login_pb2.LoginAccount:
    """The sanitised account."""
    return login_pb2.LoginAccount(
        id=account.account_id,
        username=account.username,
        authority=_authority_message(account.company_id),
        credential_id=account.credential_id,
        revision=account.revision,
        disabled_at_millis=account.disabled_at_millis,
        history=[
            login_pb2.LoginAccountEvent(
                revision=event.revision,
                action=_ACTION_NUMBERS[event.action],
                actor_id=event.actor_id,
                at_millis=event.at_millis,
            )
            for event in account.history
        ],
    )


def session_message(opened: OpenedSession) -> login_pb2.LoginSession:
    """The session with its token."""
    return login_pb2.LoginSession(
        token=opened.token.text,
        token_type=login_pb2.TOKEN_TYPE_BEARER,
        expires_at_millis=opened.session.expires_at_millis,
        account=account_message(opened.account),
    )


def _authority_message(company_id: str | None) -> login_pb2.LoginAuthority:
    if company_id is None:
        return login_pb2.LoginAuthority(global_authority=login_pb2.GlobalLoginAuthority())
    return login_pb2.LoginAuthority(tenant=login_pb2.TenantLoginAuthority(tenant_id=company_id))
