//! Processor time of another process.

use std::fs;

/// Nanoseconds that all threads of a process have run, as the kernel's scheduler counts them; 0 if it has ended.
pub(crate) fn of_process(process: u32) -> u64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return 0 };
    let of_thread = |folder: fs::DirEntry| {
        let text = fs::read_to_string(folder.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    threads.flatten().filter_map(of_thread).sum()
}
