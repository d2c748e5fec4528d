//! Converts the library's errors into exceptions of the package.

use nearlight_embed::HostError;
use nearlight_lab::{PlanError, RunnerError};
use nearlight_viewer::{MessageError, ViewerError};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// An exception class of `nearlight._errors`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ErrorClass {
    /// Base class, for errors that have no class of their own.
    Error,
    /// An error that the caller can correct.
    Usage,
    Closed,
    Full,
    Refused,
    NoServer,
}

impl ErrorClass {
    const fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Usage => "UsageError",
            Self::Closed => "ClosedError",
            Self::Full => "FullError",
            Self::Refused => "RefusedError",
            Self::NoServer => "NoServerError",
        }
    }

    /// Creates an exception of this class.
    pub(crate) fn with_message(self, message: impl ToString) -> PyErr {
        let message = message.to_string();
        Python::attach(|py| {
            let class = py.import("nearlight._errors").and_then(|errors| errors.getattr(self.name()));
            match class.and_then(|class| class.cast_into::<PyType>().map_err(PyErr::from)) {
                Ok(class) => PyErr::from_type(class, message),
                Err(_) => PyRuntimeError::new_err(message),
            }
        })
    }
}

/// Creates a `TypeError`, for an argument of a wrong type.
pub(crate) fn wrong_type(message: impl Into<String>) -> PyErr {
    PyTypeError::new_err(message.into())
}

pub(crate) fn host_error(error: &HostError) -> PyErr {
    let class = match error {
        HostError::Options(_)
        | HostError::Picture(_)
        | HostError::Views(_)
        | HostError::NoViewer(_)
        | HostError::TooLong { .. }
        | HostError::Output(_)
        | HostError::Sound(_)
        | HostError::NoSound => ErrorClass::Usage,
        HostError::Full => ErrorClass::Full,
        HostError::Closed => ErrorClass::Closed,
        HostError::Server(_) | HostError::System(_) | HostError::Failed(_) | HostError::CloseFromCallback => {
            ErrorClass::Error
        }
    };
    class.with_message(error)
}

pub(crate) fn viewer_error(error: &ViewerError) -> PyErr {
    let class = match error {
        ViewerError::Refused { .. } | ViewerError::NoToken | ViewerError::Impostor { .. } => ErrorClass::Refused,
        ViewerError::NoServer { .. } | ViewerError::NoPicture { .. } => ErrorClass::NoServer,
        ViewerError::Codec(_)
        | ViewerError::Input(_)
        | ViewerError::TooMany { .. }
        | ViewerError::Usage(_)
        | ViewerError::Message(MessageError::TooLong { .. }) => ErrorClass::Usage,
        ViewerError::Full | ViewerError::Message(MessageError::Full) => ErrorClass::Full,
        ViewerError::Closed | ViewerError::Message(MessageError::Ended) => ErrorClass::Closed,
        ViewerError::Net(_)
        | ViewerError::Sound(_)
        | ViewerError::File { .. }
        | ViewerError::System { .. }
        | ViewerError::Ended(_) => ErrorClass::Error,
    };
    class.with_message(error)
}

pub(crate) fn plan_error(error: &PlanError) -> PyErr {
    ErrorClass::Usage.with_message(error)
}

pub(crate) fn runner_error(error: &RunnerError) -> PyErr {
    let class = match error {
        RunnerError::NothingLeft { .. }
        | RunnerError::NotLive { .. }
        | RunnerError::OtherShard { .. }
        | RunnerError::EmptyShard { .. } => ErrorClass::Usage,
        RunnerError::Folder { .. } | RunnerError::Run { .. } => ErrorClass::Error,
    };
    class.with_message(error)
}
