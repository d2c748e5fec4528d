//! A process that ends with its test.

use std::process::Child;

/// Ends the process when the test does, however it does.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Kills the process by SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
