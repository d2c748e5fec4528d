//! Plans: what ships, what is refused, and runs that are the same each time.

use crate::support;
use nearlight_lab::{MergeError, Options, Plan, RUNS_FILE, RunnerError, Shard, merge, run, run_plan};
use nearlight_units::{Span, Time};
use support::{Folder, outcome, parse, refusal};

const SMALL: &str = r#"
question = "Does it run?"
seeds = 2
[all]
duration = "3s"
sample = "100ms"
controllers = ["gcc-libwebrtc", "scream-v2"]
pacing = "burst"
[all.source]
fps = 60
[[all.path]]
name = "home"
forward = "rate={rate},queue=50ms,delay=5ms,loss=1%,jitter=2ms,duplicate=1%,reorder=1%"
feedback = "delay=5ms,loss=1%"
[[all.sweep]]
name = "rate"
values = ["10mbit", "20mbit"]
[[all.flow]]
kind = "tcp"
start = "1s"
"#;

fn summary(plan: &Plan, options: &Options) -> String {
    support::json(&outcome(plan, options).summary)
}

#[test]
fn every_shipped_plan_can_be_read() {
    for plan in support::all_shipped() {
        assert!(plan.question.ends_with('?') && !plan.cells.is_empty(), "{}", plan.name);
        for published in &plan.published {
            let belongs = |cell: &nearlight_lab::Cell| published.belongs_to(&cell.labels);
            assert!(plan.cells.iter().any(belongs), "{}: {:?} belongs to no cell", plan.name, published.labels);
            for metric in published.metrics.keys() {
                assert!(nearlight_lab::report::can_show(metric), "{}: no page shows {metric}", plan.name);
            }
        }
    }
}

#[test]
fn the_plan_in_the_documents_runs() {
    let text = include_str!("../../../../docs/lab.md");
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let mut plan = parse(example);
    assert_eq!((plan.cells.len(), plan.seeds, plan.published.len()), (4, 5, 1));
    let short = nearlight_lab::plan::Setting { duration: Span::from_secs(8), ..(*plan.cells[0].setting).clone() };
    plan.cells[0].setting = std::sync::Arc::new(short);
    let record = run(&plan.cells[0], 1).expect("a run");
    assert!(record.media[0].received_frames > 100, "{}", record.media[0].received_frames);
}

#[test]
fn the_same_plan_gives_the_same_bytes_on_one_thread_and_on_several() {
    let plan = parse(SMALL);
    let first = summary(&plan, &Options { threads: Some(1), ..Options::default() });
    assert_eq!(first, summary(&plan, &Options { threads: Some(3), ..Options::default() }));
    assert_ne!(first, summary(&plan, &Options { seeds: Some(1), ..Options::default() }));
    let (one, other) = (run(&plan.cells[0], 1).expect("a run"), run(&plan.cells[0], 2).expect("a run"));
    assert_ne!(one.media[0].received, other.media[0].received, "another seed is another run");
}

#[test]
fn finished_runs_are_kept_and_the_next_call_goes_on() {
    let plan = parse(SMALL);
    let folder = Folder::new("resume");
    let options = |seeds| Options { seeds: Some(seeds), folder: Some(folder.0.clone()), ..Options::default() };
    let simulated = |options: &Options| outcome(&plan, options).simulated;
    assert_eq!(simulated(&options(1)), Span::from_secs(12));
    // The call was stopped in the middle of a line.
    let file = folder.0.join(RUNS_FILE);
    let text = std::fs::read_to_string(&file).expect("results");
    std::fs::write(&file, &text[..text.len() - 100]).expect("writable");
    assert_eq!(simulated(&options(2)), Span::from_secs(3 + 12), "one run is made again, four are new");
    assert_eq!(simulated(&options(2)), Span::ZERO);
    assert_eq!(summary(&plan, &options(2)), summary(&plan, &Options { seeds: Some(2), ..Options::default() }));
    // Another plan in the same folder starts anew.
    let other = parse(&SMALL.replace("1%", "2%"));
    assert_eq!(outcome(&other, &options(1)).simulated, Span::from_secs(12));
}

#[test]
fn only_the_asked_cells_run() {
    let plan = parse(SMALL);
    let only = |pairs: &[(&str, &str)]| Options {
        only: pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        seeds: Some(1),
        ..Options::default()
    };
    let cells = |pairs: &[(&str, &str)]| {
        run_plan(&plan, &only(pairs), &|| Time::ZERO, &mut |_| {}).map(|outcome| outcome.summary.cells.len())
    };
    assert_eq!(cells(&[("rate", "10mbit")]).expect("runs"), 2);
    assert_eq!(cells(&[("rate", "10mbit"), ("rate", "20mbit"), ("controller", "scream-v2")]).expect("runs"), 2);
    let error = cells(&[("rate", "30mbit")]).expect_err("no such cell").to_string();
    assert!(error.contains("rate=10mbit|20mbit") && error.contains("controller=gcc-libwebrtc|scream-v2"), "{error}");
}

#[test]
fn what_is_wrong_with_a_plan_is_said_with_its_place_and_the_remedy() {
    let head = "question = \"?\"\n[all]\nduration = \"3s\"\n";
    let path = "[[all.path]]\nname = \"p\"\n";
    let cases: [(String, &str, &str); 12] = [
        ("question = \"?\"\nspeed = 3\n".to_owned(), "line 2", "unknown field `speed`"),
        ("question = \"?\"\n[all]\nduration = \"3 parsecs\"\n".to_owned(), "line 3", "write a time with ns"),
        (head.to_owned(), "line 2", "[[all.path]]"),
        ("question = \"?\"\n[all]\nsample = \"1s\"\n".to_owned(), "line 2", "duration = \"120s\""),
        (format!("{head}controllers = [\"gcc-9000\"]\n{path}"), "line 4", "use frame-clocked"),
        (format!("{head}pacing = \"wild\"\n{path}"), "line 4", "spread or compressed"),
        (format!("{head}{path}forward = \"rate=10furlongs\"\n"), "line 6", "10mbit"),
        (format!("{head}{path}forward = \"trace=no/such/trace.csv\"\n"), "line 6", "existing file"),
        (format!("{head}{path}[[all.flow]]\nkind = \"cbr\"\n"), "line 6", "rate = \"2mbit\""),
        (format!("{head}{path}[[all.flow]]\nkind = \"tcp\"\nlaw = \"wild\"\n"), "line 8", "cubic"),
        (format!("{head}{path}[[all.media]]\nthrough = [\"q\"]\n"), "line 7", "there are p"),
        (format!("{head}{path}[all.source]\nkey_ratio = 0.0\n"), "line 7", "from 0.1 to 100"),
    ];
    for (text, place, remedy) in cases {
        let error = refusal(&text);
        assert!(error.contains("wrong.toml") && error.contains(place) && error.contains(remedy), "{text}\n{error}");
    }
}

#[test]
fn a_plan_that_says_nothing_or_contradicts_itself_is_refused_in_its_own_line() {
    let head = "question = \"?\"\n[all]\nduration = \"3s\"\n";
    let path = "[[all.path]]\nname = \"p\"\n";
    let source = |lines: &str| format!("{head}{path}[all.source]\n{lines}");
    let cases: [(String, &str, &str); 22] = [
        (format!("{head}controllers = []\n{path}"), "line 4", "name at least one"),
        (
            format!("{head}controllers = [\n  \"gcc-libwebrtc\",\n  \"gcc-libwebrtc\",\n]\n{path}"),
            "line 6",
            "`gcc-libwebrtc` is there already, in line 5",
        ),
        (format!("{head}controllers = [\n  \"scream-v2\",\n  \"gcc-9000\",\n]\n{path}"), "line 6", "use frame-clocked"),
        (source("minimum = \"9mbit\"\nmaximum = \"3mbit\"\n"), "line 7", "above `maximum` (3 Mb/s); exchange them"),
        (source("maximum = \"9mbit\"\nstart = \"30mbit\"\n"), "line 8", "write a rate in between"),
        (source("fps = 0\n"), "line 7", "from 1 to 1000"),
        (source("key_ratio = 1.0\nlimited_share = 7.0\n"), "line 8", "from 0 to 1"),
        (format!("{head}{path}{path}"), "line 7", "the path `p` is there already, in line 5"),
        (
            format!("{head}{path}[[case]]\nname = \"c\"\n[[case]]\nname = \"c\"\n"),
            "line 8",
            "second cell has the labels case c, controller",
        ),
        (format!("{head}{path}[[case]]\n[[case]]\n"), "line 7", "second cell has the labels controller"),
        (
            format!("{head}{path}[[all.sweep]]\nname = \"s\"\nvalues = []\n"),
            "line 8",
            "the sweep `s` has no values; write at least one",
        ),
        (format!("{head}{path}[[all.sweep]]\nname = \"s\"\nvalues = [\"1\", \"1\"]\n"), "line 8", "the value `1`"),
        (
            format!("{head}{path}[[all.media]]\nname = \"m\"\n[[all.media]]\nname = \"m\"\n"),
            "line 9",
            "the session `m` is there already",
        ),
        (format!("{head}{path}[[all.media]]\npriority = 0.0\n"), "line 7", "a number above 0"),
        (
            format!(
                "{head}{path}[[all.system]]\ncontroller = \"scream-v2\"\n[[all.system]]\ncontroller = \"scream-v2\"\n"
            ),
            "line 8",
            "distinguished only by their labels",
        ),
        (format!("{head}system = []\n{path}"), "line 4", "[[all.system]]"),
        (format!("seeds = 0\n{head}{path}"), "line 1", "from 1 to 10000"),
        (format!("{head}warm_up = \"3s\"\n{path}"), "line 4", "leave something to measure"),
        (format!("{head}sample = \"1ms\"\n{path}"), "line 4", "from 10ms"),
        (format!("{head}datagram = 100\n{path}"), "line 4", "from 640"),
        (format!("{head}{path}[all.client]\ndeadline = \"0ms\"\n"), "line 7", "deadline = \"100ms\""),
        (format!("{head}{path}[all.client]\nvsync_hz = 0\n"), "line 7", "`vsync_hz` goes from 1"),
    ];
    for (text, line, remedy) in cases {
        let error = refusal(&text);
        assert!(error.contains(&format!("wrong.toml`, {line}:")) && error.contains(remedy), "{text}\n{error}");
    }
    // What is not written gives way to what is.
    for (text, [minimum, start, maximum]) in [
        ("maximum = \"500kbit\"\n", [500, 500, 500]),
        ("minimum = \"200mbit\"\n", [200_000, 200_000, 200_000]),
        ("minimum = \"9mbit\"\nmaximum = \"9mbit\"\n", [9_000, 9_000, 9_000]),
        ("", [1_000, 8_000, 100_000]),
    ] {
        let bounds = parse(&source(text)).cells[0].setting.source.bounds;
        let found = [bounds.minimum, bounds.start, bounds.maximum].map(|rate| rate.as_bps() / 1_000);
        assert_eq!(found, [minimum, start, maximum], "{text}");
    }
}

#[test]
fn a_comment_added_to_a_plan_keeps_its_finished_runs() {
    let folder = Folder::new("comment");
    let options = Options { seeds: Some(1), folder: Some(folder.0.clone()), ..Options::default() };
    let made = |text: &str| outcome(&parse(text), &options).simulated;
    assert_eq!(made(SMALL), Span::from_secs(12));
    let commented = format!("# Why this plan.\n{}\n# An afterthought.\n", SMALL.replace("seeds = 2", "seeds = 7"));
    let reworded =
        commented.replace("Does it run?", "Does it still run?").replace("fps = 60", "fps   = 60 # frames a second");
    for text in [&commented, &reworded] {
        assert_eq!(made(text), Span::ZERO, "{text}");
    }
    let head = std::fs::read_to_string(folder.0.join(RUNS_FILE)).expect("results");
    assert!(head.lines().next().is_some_and(|line| line.contains("Does it still run?")), "the words are the newest");
    assert_eq!(made(&SMALL.replace("fps = 60", "fps = 30")), Span::from_secs(12), "another plan");
}

/// A trace whose rate tells where it is: one Mb/s more every second, for a minute.
fn trace(folder: &Folder) -> String {
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let steps = (0..60).map(|second| format!("{second},{}\n", second + 5)).collect::<Vec<_>>().concat();
    let file = folder.0.join("ramp.csv");
    std::fs::write(&file, format!("t_s,mbps\n{steps}")).expect("a file");
    file.display().to_string()
}

#[test]
fn runs_on_a_trace_start_where_their_seed_says_and_wrap_round() {
    let folder = Folder::new("trace");
    let file = trace(&folder);
    let of = |path: &str| {
        parse(&format!(
            "question = \"?\"\n[all]\nduration = \"10s\"\nsample = \"500ms\"\ncontrollers = [\"fixed\", \"scream-v2\"]\n[[all.path]]\n\
             name = \"p\"\nforward = \"{path}\"\nfeedback = \"{path}\"\n"
        ))
    };
    let capacities = |plan: &Plan, cell: usize, seed: u64| {
        let record = run(&plan.cells[cell], seed).expect("a run");
        record.links[0].sides.clone().map(|side| side.capacity)
    };
    let free = of(&format!("trace={file}"));
    let mut starts = Vec::new();
    for seed in 1..=8 {
        let [there, back] = capacities(&free, 0, seed);
        assert_eq!(there, back, "traces of one recording stay together");
        assert_eq!(capacities(&free, 1, seed)[0], there, "all controllers meet the same");
        // One step up every second, from the last one to the first.
        let steps: Vec<i64> = there.windows(3).map(|part| i64::from(part[2]) - i64::from(part[0])).collect();
        assert!(steps.iter().all(|step| [1_000, -59_000].contains(step)), "seed {seed}: {there:?}");
        starts.push(there[0]);
    }
    starts.sort_unstable();
    starts.dedup();
    assert!(starts.len() >= 6, "eight seeds begin at {starts:?}");
    let pinned = of(&format!("trace={file},offset=55s"));
    let [first, second] = [1, 2].map(|seed| capacities(&pinned, 0, seed)[0].clone());
    assert_eq!((first[0], first[18]), (60_000, 9_000), "{first:?}");
    assert_eq!(first, second);
}

#[test]
fn merged_shards_equal_one_call_byte_for_byte() {
    let plan = parse(SMALL);
    let folder = Folder::new("shards");
    let at = |name: &str| folder.0.join(name);
    let run_into = |name: &str, shard: Option<Shard>, threads| {
        let options = Options { folder: Some(at(name)), threads: Some(threads), shard, ..Options::default() };
        run_plan(&plan, &options, &|| Time::ZERO, &mut |_| {})
    };
    let shard = |index| Shard::new(index, 3);
    let bytes = |name: &str| std::fs::read(at(name).join(RUNS_FILE)).expect("results");
    run_into("whole", None, 2).expect("runs");
    for index in 1..=2 {
        run_into(&format!("{index}"), shard(index), 1).expect("runs");
    }
    let parts = |names: &[&str]| names.iter().map(|name| at(name)).collect::<Vec<_>>();

    let missing = merge(&parts(&["1", "2"]), &at("early"), false).expect_err("a shard is missing");
    assert!(matches!(&missing, MergeError::Missing { missing, count: 3 } if missing == &[3]), "{missing}");
    assert!(!at("early").exists());
    merge(&parts(&["1", "2"]), &at("early"), true).expect("a part");

    let other = run_into("2", shard(3), 1).expect_err("another shard's folder");
    assert!(matches!(other, RunnerError::OtherShard { .. }), "{other}");
    let none = run_into("4", Shard::new(9, 9), 1).expect_err("eight runs");
    assert!(matches!(none, RunnerError::EmptyShard { runs: 8, .. }), "{none}");

    // The last shard was interrupted after its first run, and then continued.
    run_into("3", shard(3), 2).expect("runs");
    let text = String::from_utf8(bytes("3")).expect("text");
    let cut: Vec<&str> = text.lines().take(2).collect();
    std::fs::write(at("3").join(RUNS_FILE), cut.join("\n")).expect("a cut file");
    let unfinished = merge(&parts(&["1", "2", "3"]), &at("merged"), false).expect_err("a run is missing");
    assert!(matches!(unfinished, MergeError::Unfinished { done: 1, runs: 2, .. }), "{unfinished}");
    run_into("3", shard(3), 1).expect("runs");
    let merged = merge(&parts(&["3", "1", "2"]), &at("merged"), false).expect("all shards");
    assert_eq!(merged.runs, 8);
    assert!(bytes("merged") == bytes("whole"));
    // What was joined early is not an obstacle.
    merge(&parts(&["3", "2"]), &at("early"), true).expect("the rest");
    assert!(bytes("early") == bytes("whole"));
    // Nothing is left to do for one call, and its figures are those of a call without shards.
    let again = run_into("merged", None, 1).expect("figures");
    assert_eq!(again.simulated, Span::ZERO);
    assert_eq!(again.summary, outcome(&plan, &Options::default()).summary);
}

#[test]
fn results_that_do_not_belong_together_are_not_merged() {
    let folder = Folder::new("strange-shards");
    let run_into = |text: &str, name: &str, index| {
        let options = Options {
            folder: Some(folder.0.join(name)),
            seeds: Some(1),
            only: vec![("rate".to_owned(), "10mbit".to_owned())],
            shard: Shard::new(index, 2),
            ..Options::default()
        };
        run_plan(&parse(text), &options, &|| Time::ZERO, &mut |_| {}).expect("runs");
        folder.0.join(name)
    };
    let first = run_into(SMALL, "1", 1);
    let changed = run_into(&SMALL.replace("queue=50ms", "queue=60ms"), "2", 2);
    let out = folder.0.join("out");
    let different = merge(&[first.clone(), changed], &out, false).expect_err("another plan");
    assert!(different.to_string().contains("the plan was changed"), "{different}");
    let empty = merge(&[first.clone(), folder.0.join("nowhere")], &out, false).expect_err("nothing there");
    assert!(matches!(empty, MergeError::NoResults(_)), "{empty}");
    let copy = folder.0.join("copy");
    std::fs::create_dir_all(&copy).expect("a folder");
    let text = std::fs::read_to_string(first.join(RUNS_FILE)).expect("results");
    assert!(text.contains("\"captured\":1"));
    std::fs::write(copy.join(RUNS_FILE), text.replacen("\"captured\":1", "\"captured\":2", 1)).expect("a changed file");
    let contradiction = merge(&[first, copy], &out, true).expect_err("figures that differ");
    assert!(matches!(contradiction, MergeError::Contradiction { .. }), "{contradiction}");
}
