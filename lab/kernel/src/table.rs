//! The laws and their flows for people.

use std::fmt::Write as _;

use nearlight_kernel::{Cost, FlowStatus, InstanceStatus, Parameters};

/// Characters for the shares of a histogram, from 0 to 1.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Most buckets on a line.
const MAX_BARS: usize = 32;

pub(super) fn table(laws: &[InstanceStatus]) -> String {
    if laws.is_empty() {
        return "Nothing is loaded; `nearlight kernel load hera` loads Hera.\n".to_owned();
    }
    let mut text = String::new();
    for law in laws {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}: {}", law.name, words(&law.parameters));
        let _ = writeln!(text, "  {}", kept(law));
        if let Some(Cost { acknowledgements, nanoseconds }) = law.cost {
            let each = nanoseconds as f64 / acknowledgements.max(1) as f64;
            let _ = writeln!(text, "  {acknowledgements} acknowledgements, {each:.0} ns each");
        }
        flows(&mut text, law);
    }
    text
}

/// Parameters in a line.
pub(super) fn words(of: &Parameters) -> String {
    let limit = of.limit.map_or_else(|| "all counts".to_owned(), |limit| format!("{limit} entries"));
    let per = if of.step == "sample" { "sample" } else { "round trip" };
    format!(
        "target {} ms ({} buckets of {} ms, {}), mean of {}, up to {} packets a bucket and {per}, {limit}, window {} to {} packets",
        of.target().as_millis_f64(),
        of.buckets,
        f64::from(of.bucket_us) / 1e3,
        of.reading,
        of.backlog,
        of.max_delta,
        of.least,
        of.most
    )
}

fn kept(law: &InstanceStatus) -> String {
    if !law.registered {
        return "unloaded; goes when its last connection ends".to_owned();
    }
    let pinned = law.pinned.as_ref().map(|path| format!("pinned at {}", path.display()));
    let processes = law.held_by.iter().map(|process| format!("held by process {process}"));
    let all: Vec<String> = pinned.into_iter().chain(processes).collect();
    if all.is_empty() { "loaded".to_owned() } else { all.join(", ") }
}

fn flows(text: &mut String, law: &InstanceStatus) {
    if law.flows.is_empty() {
        let _ = writeln!(text, "  no connections");
        return;
    }
    let address = |flow: &FlowStatus| format!("{} -> {}", flow.local, flow.remote);
    let width = law.flows.iter().map(|flow| address(flow).len()).max().unwrap_or(0).max("connection".len());
    let _ = writeln!(
        text,
        "  {:width$}  {:>7} {:>7} {:>8} {:>8} {:>6}  {:>8}  histogram",
        "connection", "window", "flight", "srtt ms", "mean ms", "bucket", "resent"
    );
    for flow in &law.flows {
        let _ = writeln!(
            text,
            "  {:width$}  {:>7} {:>7} {:>8.1} {:>8.1} {:>6}  {:>8}  {}",
            address(flow),
            flow.window,
            flow.in_flight,
            f64::from(flow.smoothed_round_trip_us) / 1e3,
            f64::from(flow.mean_round_trip_us) / 1e3,
            format!("{}/{}", flow.bucket, law.parameters.buckets),
            flow.retransmissions,
            bars(&flow.histogram)
        );
    }
}

/// The share of each bucket as a bar; the last stands for all that there is no room for.
fn bars(histogram: &[u64]) -> String {
    let total = histogram.iter().sum::<u64>().max(1);
    let (shown, rest) = histogram.split_at(histogram.len().min(MAX_BARS - 1));
    let rest = (!rest.is_empty()).then(|| rest.iter().sum::<u64>());
    let bar = |count: u64| {
        // A share above 0 is always visible.
        let index = (count * 8).div_ceil(total) as usize;
        BARS[index.min(BARS.len() - 1)]
    };
    let all: String = shown.iter().copied().chain(rest).map(bar).collect();
    format!("|{all}|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_shares_and_have_room() {
        assert_eq!(bars(&[0, 1, 50, 49]), "| ▁▄▄|");
        assert_eq!(bars(&[0; 4]), "|    |");
        let wide = bars(&[1; 256]);
        assert_eq!(wide.chars().count(), MAX_BARS + 2);
        assert!(wide.ends_with("█|"));
    }

    #[test]
    fn a_law_without_connections_is_told_with_who_keeps_it() {
        let parameters = Parameters::from(nearlight_window::HeraOptions::default());
        let law = InstanceStatus {
            name: "hera".to_owned(),
            registered: true,
            pinned: Some("/sys/fs/bpf/nearlight/hera".into()),
            held_by: vec![7],
            parameters,
            cost: Some(Cost { acknowledgements: 10, nanoseconds: 2_000 }),
            flows: Vec::new(),
        };
        let expected = "hera: target 45 ms (6 buckets of 15 ms, symmetric), mean of 10, up to 10 packets a bucket and round trip, 1000 \
                        entries, window 4 to 20000 packets\n  pinned at /sys/fs/bpf/nearlight/hera, held by process 7\n  10 \
                        acknowledgements, 200 ns each\n  no connections\n";
        assert_eq!(table(&[law]), expected);
        assert!(table(&[]).contains("load hera"));
    }
}
