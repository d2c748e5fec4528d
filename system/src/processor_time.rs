//! Processor time of a process or thread (Linux); elsewhere nothing is known.

use std::path::Path;

use nearlight_units::Span;

/// `USER_HZ`: the unit of `/proc/PID/stat` on every architecture of Linux that matters (proc(5), sysconf(3)).
const TICKS: i64 = 100;

/// Processor time so far, in user and kernel mode, of the process or thread that this folder of `/proc` describes. None where the system does
/// not tell.
pub fn of_folder(folder: &Path) -> Option<Span> {
    parse(&std::fs::read_to_string(folder.join("stat")).ok()?)
}

/// Processor time of this process so far. None where the system does not tell.
pub fn own() -> Option<Span> {
    of_folder(Path::new("/proc/self"))
}

/// Processor time of the process with this number so far.
pub fn of_process(number: u32) -> Option<Span> {
    of_folder(&Path::new("/proc").join(number.to_string()))
}

fn parse(stat: &str) -> Option<Span> {
    // The command's name is in parentheses and may contain any character.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<i64>().ok();
    // utime and stime are fields 14 and 15; the first after the name is field 3.
    Some(Span::from_millis((ticks(11)? + ticks(12)?) * 1_000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_and_parentheses_shift_no_field() {
        let stat = "17 (a ) (b) S 1 17 17 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 100 1000 10";
        assert_eq!(parse(stat), Some(Span::from_secs(3)));
        assert_eq!(parse("17 (a) S 1"), None);
        assert_eq!(parse(""), None);
    }
}
