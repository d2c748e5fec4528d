"""Exceptions. Each has a message that says what happened and what to do."""


class Error(Exception):
    """Base class, and the exception for errors that have no class of their own."""


class UsageError(Error, ValueError):
    """An argument cannot be used: the picture's shape, an option, a name, a number out of range."""


class ClosedError(Error):
    """The server or the viewer was closed."""


class FullError(Error):
    """The queue for messages is full: send less, or try again later."""


class RefusedError(Error):
    """The server refused the viewer because of its token or protocol, or because the server is full."""


class NoServerError(Error, TimeoutError):
    """No server answered in time."""
