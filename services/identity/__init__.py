"""Companies, credentials, capabilities, grants and scope policies; `authority` is what other services import."""
