//! Options of loading a law.

use nearlight_window::HeraOptions;

use crate::KernelError;

/// Default name by which a socket selects it.
pub const DEFAULT_NAME: &str = "hera";

/// Longest name in bytes (`TCP_CA_NAME_MAX` without the terminating zero).
const MAX_NAME_BYTES: usize = 15;
/// Most counts in the list of a flow: `HERA_LIST` in bpf/hera.h.
const MAX_LIST_ENTRIES: u32 = 1 << 13;

/// How to load Hera.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    pub name: String,
    pub hera: HeraOptions,
    /// Keep it in the kernel when the process ends.
    pub pin: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { name: DEFAULT_NAME.to_owned(), hera: HeraOptions::default(), pin: false }
    }
}

impl LoadOptions {
    /// Checks what the kernel would refuse, or would do otherwise than the law in virtual time.
    pub fn check(&self) -> Result<(), KernelError> {
        // The kernel's `bpf_obj_name_cpy` would take capitals too.
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.');
        if self.name.is_empty() || self.name.len() > MAX_NAME_BYTES || !self.name.bytes().all(fits) {
            return Err(KernelError::Name(self.name.clone()));
        }
        if self.hera.limit.is_some_and(|limit| limit > MAX_LIST_ENTRIES) {
            return Err(KernelError::Limit { most: MAX_LIST_ENTRIES });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_kernel_would_cut_or_misread_are_refused() {
        let named = |name: &str| LoadOptions { name: name.to_owned(), ..LoadOptions::default() }.check();
        for good in ["hera", "hera_as_printed", "x", "hera.8"] {
            named(good).expect(good);
        }
        for wrong in ["", "hera_as_printed2", "hera-8", "Hera", "he ra", "../hera", "h\0"] {
            assert!(matches!(named(wrong), Err(KernelError::Name(_))), "{wrong}");
        }
    }

    #[test]
    fn a_list_that_the_kernel_does_not_keep_is_refused() {
        let limited = |limit| {
            LoadOptions { hera: HeraOptions { limit, ..HeraOptions::default() }, ..LoadOptions::default() }.check()
        };
        limited(Some(MAX_LIST_ENTRIES)).expect("as long as the kernel's");
        limited(None).expect("counts only");
        assert!(matches!(limited(Some(MAX_LIST_ENTRIES + 1)), Err(KernelError::Limit { .. })));
    }
}
