//! Plans of TCP flows without sessions: their figures, their page, and measured traces in place of made-up ones.

use crate::support;
use nearlight_lab::{report, run, run_means};
use support::{Folder, head, parse, refusal};

const TEXT: &str = r#"
    question = "?"
    [all]
    duration = "12s"
    warm_up = "2s"
    sample = "100ms"
    media = []
    [[all.path]]
    name = "beach"
    forward = "model=beach-stationary/20mbit,queue=100ms,delay=10ms"
    feedback = "delay=10ms"
    [[all.path]]
    name = "city"
    forward = "model=city-drive/20mbit,queue=100ms,delay=10ms"
    feedback = "delay=10ms"
    [[all.flow]]
    kind = "tcp"
    law = "{law}"
    [[all.flow]]
    kind = "tcp"
    law = "{law}"
    [[all.sweep]]
    name = "law"
    values = ["cubic", "hera/buckets:4", "copa"]
"#;

#[test]
fn flows_alone_have_their_figures_and_a_page() {
    let plan = parse(TEXT);
    assert_eq!(plan.cells.len(), 6);
    let runs: Vec<_> = plan.cells.iter().map(|cell| run(cell, 1).unwrap_or_else(|error| panic!("{error}"))).collect();
    for run in &runs {
        let means = run_means(run);
        assert!(!run.labels.contains_key("controller") && run.media.is_empty());
        assert!(!means.contains_key("received_mbps") && !means.contains_key("tcp_share"), "{means:?}");
        let (rate, share) = (means["flows_mbps"], means["flows_utilisation"]);
        assert!(rate > 1.0 && (0.3..1.1).contains(&share), "{:?}: {means:?}", run.labels);
        // Ten milliseconds of way, and the queue.
        assert!((10.0..150.0).contains(&means["flows_delay_ms"]), "{:?}: {means:?}", run.labels);
        // Two flows: half where one has all.
        assert!((0.5..=1.0).contains(&means["flows_jain_whole"]), "{:?}: {means:?}", run.labels);
        assert!((0.5..=1.0).contains(&means["flows_jain"]), "{:?}: {means:?}", run.labels);
    }
    let delay = |law: &str| {
        let of_law = runs.iter().filter(|run| run.labels["law"] == law);
        of_law.map(|run| run_means(run)["flows_delay_ms"]).sum::<f64>()
    };
    assert!(delay("cubic") > delay("hera/buckets:4") && delay("copa") < delay("cubic"));
    let page = report::document(&head(&plan), &runs).to_html();
    for words in ["hera/buckets:4", "Fairness over time", "Delay against rate", "Packets arrive soonest with law"] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn the_page_has_hera_s_ratios_to_the_others() {
    let text = TEXT.replace("hera/buckets:4", "hera").replace("12s", "4s");
    let plan = parse(&text);
    let runs: Vec<_> = plan.cells.iter().flat_map(|cell| [1, 2].map(|seed| run(cell, seed).expect("a run"))).collect();
    let page = report::document(&head(&plan), &runs).to_html();
    let of = |law: &str, metric: &str| -> Vec<f64> {
        let of_cell = |run: &&nearlight_lab::RunRecord| run.labels["law"] == law && run.labels["path"] == "beach";
        runs.iter().filter(of_cell).map(|run| run_means(run)[metric]).collect()
    };
    let ratio = |metric: &str| {
        let (hera, cubic) = (of("hera", metric), of("cubic", metric));
        hera.iter().zip(&cubic).map(|(hera, cubic)| hera / cubic).sum::<f64>() / 2.0
    };
    for metric in ["flows_delay_ms", "flows_mbps"] {
        assert!(page.contains(&format!("{:.3} ± ", ratio(metric))), "{metric}: {}", ratio(metric));
    }
}

#[test]
fn what_is_wrong_with_flows_alone_is_said() {
    for (from, to, words) in [
        ("media = []", "media = []\n    controllers = [\"fixed\"]", "leave `controllers`, `system` and `oracle` out"),
        ("\"copa\"]", "\"copah\"]", "no law of congestion control `copah`"),
        ("buckets:4", "buckets:5", "not a parameter of Hera"),
    ] {
        let error = refusal(&TEXT.replace(from, to));
        assert!(error.contains(words), "{error}");
    }
    let no_flows = "question = \"?\"\n[all]\nduration = \"9s\"\nmedia = []\n[[all.path]]\nname = \"a\"\nforward = \"rate=1mbit\"\n";
    let error = refusal(no_flows);
    assert!(error.contains("add flows for `media = []`"), "{error}");
}

#[test]
fn traces_of_a_folder_stand_in_for_made_up_capacities() {
    let folder = Folder::new("flows-traces");
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let error = parse(TEXT).over_traces(&folder.0).expect_err("no traces").to_string();
    assert!(error.contains("no files that end with .csv or .mahi"), "{error}");
    for (name, rate) in [("slow", 4), ("fast", 40)] {
        let lines = (0..20).map(|second| format!("{second},{rate}\n")).collect::<Vec<_>>().concat();
        std::fs::write(folder.0.join(format!("{name}.csv")), format!("t_s,mbps\n{lines}")).expect("a file");
    }
    let made_up = parse(TEXT);
    let (digest, cells) = (made_up.digest, made_up.cells.len());
    let over = made_up.over_traces(&folder.0).unwrap_or_else(|error| panic!("{error}"));
    assert_ne!(over.digest, digest, "runs over other traces are another plan's");
    assert_eq!((over.cells.len(), cells), (6, 6), "three laws over two traces");
    for cell in &over.cells {
        let expected = if cell.labels["path"] == "slow" { 4.0 } else { 40.0 };
        let means = run_means(&run(cell, 1).unwrap_or_else(|error| panic!("{error}")));
        assert!((0.7..1.02).contains(&(means["flows_mbps"] / expected)), "{:?}: {means:?}", cell.labels);
    }
    let constant =
        TEXT.replace("model=beach-stationary/20mbit", "rate=20mbit").replace("model=city-drive/20mbit", "rate=9mbit");
    let error = parse(&constant).over_traces(&folder.0).expect_err("no model").to_string();
    assert!(error.contains("no path with `model=`"), "{error}");
    std::fs::write(folder.0.join("wrong.csv"), "t_s,mbps\nx,y\n").expect("a file");
    let error = parse(TEXT).over_traces(&folder.0).expect_err("a wrong trace").to_string();
    assert!(error.contains("wrong.csv"), "{error}");
}
