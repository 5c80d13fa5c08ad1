"""Tie a commit to the lease that it stands on."""

from __future__ import annotations

from services.domain.lease import Lease
from services.storage.transaction import Transaction


def hold_until_commit(transaction: Transaction, lease: Lease) -> None:
    """Let the commit hold only while the lease can be used.

    Between the check on the snapshot and the commit the lease may end or storage may be opened again. The commit is
    then refused, and the rerun of the command sees a lease that is over.
    """
    transaction.bound_clock(lease.expires_at_millis)
    transaction.require_incarnation(lease.incarnation)
