//! The oracle's bound: no controller reaches more, and what it reports is what a schedule over the path is worth.

use std::path::Path;

use nearlight_lab::{Options, Plan, ResultsHeader, report, run, run_plan};
use nearlight_units::Time;

const PLAN: &str = r#"
question = "How much of what the path carries is used?"
seeds = 2
[all]
duration = "12s"
warm_up = "2s"
controllers = ["gcc-libwebrtc", "scream-v2", "frame-clocked", "fixed"]
oracle = true
[all.source]
fps = 60
minimum = "1mbit"
start = "5mbit"
maximum = "60mbit"
[[all.path]]
name = "steady"
forward = "rate=20mbit,queue=100ms,delay=10ms"
feedback = "delay=10ms"
[[all.path]]
name = "changing"
forward = "model=5g,queue=100ms,delay=10ms"
feedback = "delay=10ms"
"#;

fn plan(text: &str) -> Result<Plan, String> {
    Plan::parse(Path::new("small.toml"), text).map_err(|error| error.to_string())
}

#[test]
fn no_controller_gets_more_than_the_oracle() {
    let plan = plan(PLAN).expect("a plan");
    let outcome = run_plan(&plan, &Options::default(), &|| Time::ZERO, &mut |_| {}).expect("runs");
    for cell in &outcome.summary.cells {
        let share = cell.metrics["oracle_share"];
        if cell.labels["controller"] == "oracle" {
            assert!((share.mean - 1.0).abs() < 1e-9, "{share:?}");
            assert!(cell.metrics["utility"].mean > 0.3, "{cell:?}");
        } else {
            assert!(share.mean < 1.0, "{:?}: {share:?}", cell.labels);
        }
    }
    let steady = |controller: &str, metric: &str| {
        let wanted = |cell: &&nearlight_lab::CellSummary| {
            cell.labels["path"] == "steady" && cell.labels["controller"] == controller
        };
        outcome.summary.cells.iter().find(wanted).expect("a cell").metrics[metric].mean
    };
    // Over a path that never changes, the best schedule is the path's rate, all in time.
    assert!((19.0..=20.1).contains(&steady("oracle", "received_mbps")), "{}", steady("oracle", "received_mbps"));
    assert!(steady("oracle", "in_time_ratio") > 0.99, "{}", steady("oracle", "in_time_ratio"));
    assert!(steady("scream-v2", "oracle_share") > 0.5);
}

#[test]
fn the_oracle_is_the_same_each_time_and_follows_the_path() {
    let plan = plan(PLAN).expect("a plan");
    let cell = |path: &str| {
        let of_path = |cell: &&nearlight_lab::Cell| cell.labels["path"] == path && cell.controller == "oracle";
        plan.cells.iter().find(of_path).expect("a cell")
    };
    let text = |path: &str, seed| serde_json::to_string(&run(cell(path), seed).expect("a run")).expect("plain figures");
    assert_eq!(text("changing", 1), text("changing", 1));
    assert_ne!(text("changing", 1), text("changing", 2));
    let page = report::document(&head(), &[run(cell("steady"), 1).expect("a run")]);
    assert!(page.to_html().contains("share of the oracle"));
}

fn head() -> ResultsHeader {
    let head = r#"{"plan":"p","question":"q?","notes":"","published":[],"digest":1,"commit":"c","program":1}"#;
    serde_json::from_str(head).expect("a head")
}

#[test]
fn the_headline_names_the_best_controller_and_not_the_oracle() {
    let plan = plan(PLAN).expect("a plan");
    let steady = |cell: &&nearlight_lab::Cell| {
        cell.labels["path"] == "steady" && ["oracle", "scream-v2", "fixed"].contains(&cell.controller.as_str())
    };
    let runs: Vec<_> =
        plan.cells.iter().filter(steady).flat_map(|cell| [1, 2].map(|seed| run(cell, seed).expect("a run"))).collect();
    let html = report::document(&head(), &runs).to_html();
    assert!(html.contains("serves the user best") && !html.contains("oracle serves the user best"), "the headline");
    assert!(!html.contains("oracle does not differ") && html.contains(">oracle</th>"), "the bound stays in the table");
}

#[test]
fn where_there_is_no_best_schedule_the_plan_is_refused() {
    let cases = [
        (PLAN.replace("rate=20mbit,queue=100ms,", ""), "nothing limits"),
        (format!("{PLAN}[[all.flow]]\nkind = \"tcp\"\n"), "competing flows"),
        (format!("{PLAN}[[all.media]]\ncount = 2\n"), "several"),
        (format!("{PLAN}[[all.media]]\ncontroller = \"oracle\"\n"), "`oracle = true`"),
    ];
    for (text, expected) in cases {
        let error = plan(&text).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}
