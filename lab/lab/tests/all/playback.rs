//! Plans of players of adaptive streaming: what they show follows the link, and what is wrong with them is said.

use crate::support;
use std::path::Path;

use nearlight_lab::{Plan, PlanError, report, run, run_means};
use support::head;

const TEXT: &str = r#"
    question = "?"
    [all]
    duration = "100s"
    sample = "500ms"
    media = []
    [[all.path]]
    name = "narrow"
    forward = "rate=2500kbit,queue=150ms,delay=10ms"
    feedback = "delay=10ms"
    [[all.path]]
    name = "wide"
    forward = "rate=30mbit,queue=150ms,delay=10ms"
    feedback = "delay=10ms"
    [[all.path]]
    name = "broken"
    forward = "rate=5mbit/10kbit@20s/5mbit@90s,queue=150ms,delay=10ms"
    feedback = "delay=10ms"
    [[all.flow]]
    kind = "dash"
    law = "{law}"
    length = "120s"
    ladder = ["100kbit", "300kbit", "700kbit", "1500kbit", "3mbit"]
    [[all.flow]]
    kind = "dash"
    law = "{law}"
    length = "120s"
    ladder = ["100kbit", "300kbit", "700kbit", "1500kbit", "3mbit"]
    [[all.sweep]]
    name = "law"
    values = ["cubic", "hera"]
"#;

fn plan(text: &str) -> Result<Plan, PlanError> {
    Plan::parse(Path::new("test.toml"), text)
}

#[test]
fn players_show_what_the_link_allows_and_have_a_page() {
    let published =
        "[[published]]\nsource = \"x\"\nlabels = { law = \"hera\" }\nmetrics = { playback_quality = 91.2 }\n";
    let plan = plan(&format!("{TEXT}{published}")).unwrap_or_else(|error| panic!("{error}"));
    let runs: Vec<_> = plan.cells.iter().map(|cell| run(cell, 1).unwrap_or_else(|error| panic!("{error}"))).collect();
    for run in &runs {
        let means = run_means(run);
        let (rate, stalls) = (means["playback_mbps"], means["playback_stalls"]);
        let (from, to, most) = match run.labels["path"].as_str() {
            "narrow" => (0.6, 1.25, 0.0),
            "wide" => (2.7, 3.01, 0.0),
            // The buffer of at most half a minute does not last for a minute without data.
            _ => (0.3, 3.01, 3.0),
        };
        assert!((from..to).contains(&rate) && stalls <= most, "{:?}: {means:?}", run.labels);
        assert_eq!(stalls > 0.0, run.labels["path"] == "broken", "{:?}: {means:?}", run.labels);
        // Two first segments of 700 kb/s and 4 s take more than two seconds over the narrow link.
        assert!((0.05..4.0).contains(&means["playback_startup_s"]), "{means:?}");
        assert!((0.0..=100.0).contains(&means["playback_quality"]) && means["playback_jain"] > 0.8, "{means:?}");
        // Players that pause do not compete for all that they could get.
        assert!(!means.contains_key("flows_jain") && means.contains_key("flows_delay_ms"), "{means:?}");
    }
    let page = report::document(&head(&plan), &runs).to_html();
    for words in ["shows the best pictures", "average quality", "Stalls against bit rate", "91.2"] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn what_is_wrong_with_a_player_is_said() {
    for (from, to, words) in [
        ("ladder = [\"100kbit\", \"300kbit\", \"700kbit\", \"1500kbit\", \"3mbit\"]", "", "needs a `ladder`"),
        ("\"700kbit\"", "\"300kbit\"", "each higher than the one before"),
        ("length = \"120s\"", "length = \"2s\"", "one segment"),
        ("kind = \"dash\"", "kind = \"tcp\"", "only a flow of the kind `dash`"),
    ] {
        let error = plan(&TEXT.replace(from, to)).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}
