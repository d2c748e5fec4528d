"""Exceptions. Each has a sentence that says what happened and what to do."""


class Error(Exception):
    """Something failed that none of the others names."""


class UsageError(Error, ValueError):
    """An argument cannot be used: the picture's shape, an option, a name, a number out of range."""


class ClosedError(Error):
    """The server or the viewer was closed."""


class FullError(Error):
    """More waits to be sent than is kept: send less, or try again later."""


class RefusedError(Error):
    """The server refused the viewer: its token, its protocol, or there is no room."""


class NoServerError(Error, TimeoutError):
    """No server answered in time."""
