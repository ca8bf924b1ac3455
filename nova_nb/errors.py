"""Every error Nova raises on purpose, as one tree.

NovaError
├── UsageError            you called it with something it cannot use (also a ValueError)
├── SessionError
│   ├── NotASession       the file cannot be read as a session of any known agent
│   ├── SessionNotFound   no session with this id; carries the nearest ones
│   ├── SessionLocked     another process writes to it; carries the holder's pid and host
│   └── LogWriteError     the disk refused an append; the log is whole up to the last acknowledged event
├── ProjectionError
│   └── OverBudget        nothing more can be reclaimed and the request still does not fit
├── ModelError
│   ├── ModelUnavailable  no answer: network, overload (529), rate limit (429), after the retries
│   ├── ModelRefused      the provider says the request is wrong (400, 401, 403)
│   └── PromptTooLong     the provider says the prompt does not fit the window
└── MissingExtra          an optional package is needed; the text says what to install

Each text is one clear sentence: what happened, where (file, line, id), and what to do next.
A tool's failure and a person's interrupt are events, not errors.
"""

from __future__ import annotations


class NovaError(Exception):
    """Base of all errors of Nova: `except nova_nb.NovaError` catches each of them."""

    def _render_traceback_(self) -> list[str]:
        """In a notebook the sentence is shown, not the way through Nova that led to it."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(NovaError, ValueError):
    """The call cannot work as written; the text says what would."""


class SessionError(NovaError):
    """Something about a session on disk."""


class NotASession(SessionError):
    """The file is no session that Nova can read; the text says what it looks like instead."""


class SessionNotFound(SessionError):
    """No session under this id or path."""


class SessionLocked(SessionError):
    """Another live process writes to this session."""


class LogWriteError(SessionError):
    """An append failed; everything acknowledged before is safe, and this event is not written."""


class ProjectionError(NovaError):
    """A request cannot be built from this history."""


class OverBudget(ProjectionError):
    """The request does not fit the window and no stage can make it smaller."""


class ModelError(NovaError):
    """A model gave no usable answer."""


class ModelUnavailable(ModelError):
    """No answer came, after the retries."""


class ModelRefused(ModelError):
    """The provider refused the request as such."""


class PromptTooLong(ModelError):
    """The provider says the prompt is longer than the model's window."""


class MissingExtra(NovaError, ImportError):
    """An optional package is missing; the text holds the install line."""
