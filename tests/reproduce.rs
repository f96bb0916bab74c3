//! `rondo reproduce` gives the golden numbers, all of them, and says honestly which of the paper's it meets.

#![allow(clippy::unwrap_used)]

mod common;

use common::{path, rondo};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(&std::fs::read_to_string(path("tests/golden/b_claims.json")).unwrap()).unwrap()
}

fn report(item: &str) -> Value {
    serde_json::from_str(&rondo(&["reproduce", item, "--output-format", "json"]).expect(0).stdout).unwrap()
}

#[track_caller]
fn same(found: &Value, expected: &Value, at: &str) {
    match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => {
            assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{at}: {found} instead of {expected}");
        }
        _ => assert_eq!(found, expected, "{at}"),
    }
}

fn reading(name: &str) -> &'static str {
    if name == "as_labelled" { "as-labelled" } else { "hop-delay-doubled" }
}

/// The key of a point for a key of the golden file.
fn key(golden: &str) -> &str {
    match golden {
        "T_best" => "threshold_best",
        "T_from1" => "threshold_from_one",
        "T_literal" => "threshold_literal",
        "speedup_from1" => "speedup_from_one",
        "n" => "nodes",
        "m" => "bytes",
        "delta" => "reconfiguration_ns",
        "alpha_p" => "hop_delay_label_ns",
        "alpha_s" => "startup_ns",
        same => same,
    }
}

const PLACES: [&str; 5] = ["n", "m", "delta", "alpha_p", "alpha_s"];

/// Points of a claim in a reading at the place of a golden row.
fn at<'a>(claim: &'a Value, in_reading: &str, row: &Value) -> Vec<&'a Value> {
    let points = claim["points"].as_array().unwrap().iter();
    let here = |point: &&Value| {
        let same = |place: &&str| row.get(place).is_none_or(|value| point[key(place)].as_f64() == value.as_f64());
        point["reading"] == reading(in_reading) && PLACES.iter().all(same)
    };
    points.filter(here).collect()
}

#[test]
fn claims_are_the_golden_ones() {
    let (report, golden) = (report("shortcut-claims"), golden());
    let claims = report["claims"].as_array().unwrap();
    let mut compared = 0;
    for expected in golden["claims"].as_array().unwrap() {
        let id = &expected["id"];
        let claim = claims.iter().find(|claim| claim["id"] == *id).unwrap_or_else(|| panic!("no claim {id}"));
        let verdict = match (&expected["agrees_as_labelled"], &expected["agrees_doubled"]) {
            (Value::Bool(true), _) => "reproduced",
            (_, Value::Bool(true)) => "only-with-doubled-hop-delay",
            _ => "not-reproduced",
        };
        assert_eq!(claim["verdict"], verdict, "{id}");
        for name in ["as_labelled", "alpha_p_doubled"] {
            let rows = match &expected[name] {
                Value::Null => continue,
                Value::Array(rows) => rows.clone(),
                row => vec![row.clone()],
            };
            for row in rows {
                let points = at(claim, name, &row);
                let of = |algorithm: &str, bytes: Option<f64>| {
                    let fits = |p: &&&Value| {
                        p["algorithm"] == algorithm && bytes.is_none_or(|bytes| p["bytes"].as_f64() == Some(bytes))
                    };
                    *points.iter().find(fits).unwrap_or_else(|| panic!("{id}: no point for {row}"))
                };
                let halving = |key: &str| of("halving-doubling", None)[key].clone();
                let swing = |key: &str| of("swing", None)[key].clone();
                for (name, value) in
                    row.as_object().unwrap().iter().filter(|(name, _)| !PLACES.contains(&name.as_str()))
                {
                    let found = match name.as_str() {
                        "RD_over_Ring_32KB" => halving("static_over_ring"),
                        // These belong to the claim that Ring is better at all sizes.
                        "RD_over_Ring_1KB" | "RD_over_Ring_1GB" => {
                            let other = claims.iter().find(|claim| claim["id"] == "fig3_ring").unwrap();
                            let bytes = if name.ends_with("1KB") { 1e3 } else { 1e9 };
                            let points = at(other, "as_labelled", &row);
                            let point = points.iter().find(|p| p["bytes"].as_f64() == Some(bytes)).unwrap();
                            point["static_over_ring"].clone()
                        }
                        "sum_h_RD" => halving("static_hops"),
                        "sum_h_Swing" => swing("static_hops"),
                        "static_RD_over_ring" => halving("static_over_ring"),
                        "static_Swing_over_ring" => swing("static_over_ring"),
                        "RD" => halving("speedup_best"),
                        "Swing" => swing("speedup_best"),
                        other => halving(key(other)),
                    };
                    same(&found, value, &format!("{id} {row} {name}"));
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(claims.len(), golden["claims"].as_array().unwrap().len() + 1, "fig3_ring is ours");
    assert!(200 < compared, "{compared}");
}

#[test]
fn figures_4_and_5_are_the_golden_points() {
    let reports = [report("shortcut-fig4"), report("shortcut-fig5")];
    let points: Vec<&Value> = reports.iter().flat_map(|report| report["points"].as_array().unwrap()).collect();
    let golden = golden();
    let rows = golden["fig4_fig5_n32"].as_array().unwrap();
    for row in rows {
        let here = |point: &&&Value| {
            point["reading"] == reading(row[0].as_str().unwrap())
                && point["algorithm"] == "halving-doubling"
                && [("bytes", 1), ("reconfiguration_ns", 2), ("hop_delay_label_ns", 3)]
                    .iter()
                    .all(|(key, column)| point[key].as_f64() == row[column].as_f64())
        };
        let found: Vec<_> = points.iter().filter(here).collect();
        assert!(!found.is_empty(), "{row}");
        for point in found {
            let keys =
                [("threshold_best", 4), ("threshold_from_one", 5), ("threshold_literal", 6), ("speedup_best", 7)];
            keys.iter().for_each(|(key, column)| same(&point[key], &row[column], &format!("{row} {key}")));
        }
    }
    assert_eq!(rows.len(), 120);
}

#[test]
fn panels_of_figure_6_are_the_golden_ones() {
    let (report, golden) = (report("shortcut-fig6"), golden());
    let panels = report["panels"].as_array().unwrap();
    let rows = golden["fig6_panel_maxima"].as_array().unwrap();
    assert_eq!(panels.len(), rows.len());
    for row in rows {
        let here = |panel: &&Value| {
            panel["reading"] == reading(row["reading"].as_str().unwrap())
                && panel["nodes"] == row["n"]
                && panel["reconfiguration_ns"].as_f64() == row["delta"].as_f64()
        };
        let panel = panels.iter().find(here).unwrap();
        same(&panel["speedup_best"], &row["max_speedup"], &row.to_string());
        same(&panel["hop_delay_label_ns"], &row["at_alpha_p_label"], &row.to_string());
        same(&panel["startup_ns"], &row["at_alpha_s"], &row.to_string());
    }
}

#[test]
fn rules_do_on_the_grid_as_the_golden_file_says() {
    let (report, golden) = (report("shortcut-claims"), golden());
    for (at, name) in ["RD", "Swing"].iter().enumerate() {
        let expected = &golden["threshold_rule_statistics_on_the_grids"][name];
        let found = &report["statistics"][at];
        same(&found["points"], &expected["rows"], name);
        same(&found["literal_falls_back"], &expected["literal_falls_back_but_best_beats_ring"], name);
        for (rule, theirs) in [("literal", "literal"), ("from_one", "from1")] {
            let found = &found[rule];
            let expected = |key: &str| &expected[format!("{theirs}_{key}")];
            same(&found["selects"], expected("selects_RD"), name);
            same(&found["suboptimal"], expected("suboptimal"), name);
            same(&found["worst_ratio"], expected("worst_ratio"), name);
            let keys = ["nodes", "hop_delay_label_ns", "startup_ns", "reconfiguration_ns", "bytes"];
            for (column, key) in keys.iter().enumerate() {
                same(&found["worst_at"][key], &expected("worst_at")[column], &format!("{name} {key}"));
            }
            let thresholds = expected("worst_T_vs_best");
            same(&found["worst_at"][format!("threshold_{rule}")], &thresholds[0], name);
            same(&found["worst_at"]["threshold_best"], &thresholds[1], name);
        }
    }
}

/// CSV and charts are written, and are the same each time and on any number of threads.
#[test]
fn files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut written: Vec<Vec<(String, Vec<u8>)>> = Vec::new();
    for (run, threads) in ["1", "4"].iter().enumerate() {
        let to = folder.path().join(format!("deep/{run}"));
        for item in ["shortcut-fig3", "shortcut-fig4", "shortcut-fig5", "shortcut-fig6", "shortcut-claims"] {
            rondo(&["reproduce", item, "-o", to.to_str().unwrap(), "--threads", threads]).expect(0);
        }
        let mut files: Vec<_> = std::fs::read_dir(&to)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        written.push(files);
    }
    assert_eq!(written[0], written[1]);
    let count = |end: &str| written[0].iter().filter(|(name, _)| name.ends_with(end)).count();
    assert_eq!((count(".csv"), count(".svg")), (5, 14));
    for (name, bytes) in &written[0] {
        let text = std::str::from_utf8(bytes).unwrap();
        if name.ends_with(".csv") {
            let widths: std::collections::BTreeSet<usize> = text.lines().map(|line| line.split(',').count()).collect();
            assert_eq!(widths.len(), 1, "{name}");
        } else {
            assert!(text.starts_with("<svg") && text.contains("hop delay"), "{name}");
        }
    }
}

#[test]
fn an_unknown_item_names_the_nearest() {
    let run = rondo(&["reproduce", "shortcut-fig7"]).expect(2);
    assert!(run.stderr.contains("there is no item `shortcut-fig7`"), "{}", run.stderr);
    assert!(run.stderr.contains("the nearest one is shortcut-fig"), "{}", run.stderr);
    rondo(&["reproduce", "-o", "somewhere"]).expect(2);
}

/// Table 8 of the topology paper, cell by cell: printed and literal values, and which of them agree.
#[test]
fn table_8_says_which_cells_agree() {
    let golden: Value =
        serde_json::from_str(&std::fs::read_to_string(path("tests/golden/a_case_studies.json")).unwrap()).unwrap();
    let report = report("topology-table8");
    let (rows, statements) = (report["rows"].as_array().unwrap(), report["statements"].as_array().unwrap());
    let cells = golden["cells"].as_array().unwrap();
    assert_eq!(rows.len(), cells.len());
    for ((row, cell), statement) in rows.iter().zip(cells).zip(statements) {
        let texts = [0, 1, 2].map(|at: usize| &row[at]["text"]);
        assert_eq!(texts, [&cell["model"], &cell["topology"], &cell["collective"]]);
        same(&row[3]["number"], &cell["paper_s"], "printed");
        let close = |found: &Value, expected: &Value| match (found.as_f64(), expected.as_f64()) {
            (Some(found), Some(expected)) => assert!((found / expected - 1.0).abs() < 1e-11, "{cell}"),
            (found, expected) => assert_eq!(found, expected, "{cell}"),
        };
        close(&row[4]["number"], &cell["literal_s"]);
        let agrees = cell["literal_agrees"].as_bool().unwrap_or(false);
        assert_eq!(statement["verdict"], if agrees { "reproduced" } else { "differs" }, "{cell}");
    }
}

/// Every sheet of the topology paper, as it is written: the numbers behind are held against golden ones in `compiler`.
#[test]
fn sheets_of_the_topology_paper_stay() {
    let folder = tempfile::tempdir().unwrap();
    let list: Value = serde_json::from_str(&rondo(&["reproduce", "--output-format", "json"]).expect(0).stdout).unwrap();
    let names = list["items"].as_array().unwrap().iter().map(|item| item["item"].as_str().unwrap());
    let names: Vec<&str> = names.filter(|name| name.starts_with("topology-")).collect();
    assert_eq!(names.len(), 16);
    for name in names {
        let into = folder.path().display().to_string();
        let run = rondo(&["reproduce", name, "-o", &into]).expect(0);
        for line in run.stdout.lines().filter(|line| !line.starts_with("wrote ")) {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
        let csv = std::fs::read_to_string(folder.path().join(format!("{name}.csv"))).unwrap();
        insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(name, csv);
        });
    }
    rondo(&["reproduce", "topology-fig3"]).expect(2).says("schematics").says("topology-fig2");
}
