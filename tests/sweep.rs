//! `rondo sweep`: the golden grids, files, and wrong usage.

#![allow(clippy::unwrap_used)]

mod common;

use common::{path, rondo};
use serde_json::Value;

fn report(arguments: &[&str]) -> Value {
    let run = rondo(&[&["sweep", "--output-format", "json"], arguments].concat()).expect(0);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Every row of the two grids of reduce_scatter, 3,240 each.
#[test]
fn a_sweep_over_a_golden_grid_gives_the_golden_numbers() {
    for (file, algorithm) in [("b_cost_grid_rd", "halving-doubling"), ("b_cost_grid_swing", "swing")] {
        let text = std::fs::read_to_string(path(&format!("tests/golden/{file}.json"))).unwrap();
        let golden: Value = serde_json::from_str(&text).unwrap();
        let rows = golden["rows"].as_array().unwrap();
        let axis = |column: usize, unit: &str| {
            let mut values: Vec<u64> = rows.iter().map(|row| row[column].as_u64().unwrap()).collect();
            values.sort_unstable();
            values.dedup();
            values.iter().map(|value| format!("{value}{unit}")).collect::<Vec<_>>().join(",")
        };
        let report = report(&[
            "--algorithm",
            algorithm,
            "--nodes",
            &axis(0, ""),
            "--hop-delay",
            &axis(1, " ns"),
            "--startup",
            &axis(2, " ns"),
            "--reconfiguration",
            &axis(3, " ns"),
            "--size",
            &axis(4, " B"),
        ]);
        let key = |point: &Value| {
            let keys = ["nodes", "hop_delay_ns", "startup_ns", "reconfiguration_ns", "bytes"];
            keys.map(|key| point[key].as_f64().unwrap().to_bits())
        };
        let found: std::collections::HashMap<_, _> =
            report["rows"].as_array().unwrap().iter().map(|point| (key(point), point)).collect();
        assert_eq!((rows.len(), found.len()), (3240, 3240));
        for row in rows {
            let at = [0, 1, 2, 3, 4].map(|column: usize| row[column].as_f64().unwrap().to_bits());
            let point = found[&at];
            let close = |key: &str, expected: &Value| {
                let (found, expected) = (point[key].as_f64().unwrap(), expected.as_f64().unwrap());
                assert!((found - expected).abs() <= 1e-12 * expected, "{key} {found} instead of {expected}: {row}");
            };
            close("ring_ns", &row[5]);
            let costs = row[6].as_array().unwrap();
            close("static_ns", costs.last().unwrap());
            close("best_ns", &costs[row[9].as_u64().unwrap() as usize]);
            for (key, column) in [("threshold_literal", 7), ("threshold_from_one", 8), ("threshold_best", 9)] {
                assert_eq!(point[key], row[column], "{key}: {row}");
            }
            assert_eq!(point["best_beats_ring"], row[10], "{row}");
        }
    }
}

#[test]
fn points_and_charts_are_written_alike_whatever_the_threads() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for threads in ["1", "2"] {
        let into = folder.path().join(threads).display().to_string();
        let sweep = ["--hop-delay", "100 ns..2 us/3", "--reconfiguration", "1 us,100 us", "--size", "32 kB"];
        rondo(&[&["sweep", "--threads", threads, "-o", &into], &sweep[..]].concat()).expect(0);
        let mut files: Vec<_> = std::fs::read_dir(&into).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let read = |file: &std::path::PathBuf| {
            (file.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(file).unwrap())
        };
        all.push(files.iter().map(read).collect::<Vec<_>>());
    }
    assert_eq!(all[0], all[1]);
    let names: Vec<_> = all[0].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["speedup.svg", "sweep.csv", "threshold.svg"]);
    let lines: Vec<&str> = all[0][1].1.lines().collect();
    assert_eq!(lines.len(), 7);
    // Ring: 31 hops of 2 us and 31/32 of 32 kB at 100 GB/s, 62310 ns. At 1 us T = 1 is the cheapest: five hops, four
    // changes, the same bytes: 14310 ns. Static: 31 hops and 5/2 of the bytes, 62800 ns. (models.md 14)
    let columns: Vec<&str> = lines[5].split(',').collect();
    let (exact, ratios) = columns.split_at(14);
    assert_eq!(exact.join(","), "halving-doubling,reduce_scatter,32,32000,0,2000,1000,62310,14310,62800,1,0,1,true");
    for (found, expected) in ratios.iter().zip([62_310.0 / 14_310.0, 62_800.0 / 62_310.0]) {
        assert!((found.parse::<f64>().unwrap() / expected - 1.0).abs() < 1e-12, "{found} instead of {expected}");
    }
    for (name, text) in all[0].iter().filter(|(name, _)| name.ends_with(".svg")) {
        assert!(text.contains("hop delay") && text.contains("100 us"), "{name}");
    }
}

#[test]
fn wrong_usage_says_what_to_type() {
    let all =
        rondo(&["sweep", "--nodes", "7", "--size", "3", "--algorithm", "ring", "--collective", "gather"]).expect(2);
    for word in ["power of two", "no unit", "halving-doubling, swing", "reduce_scatter, all_gather, all_reduce"] {
        assert!(all.stderr.contains(word), "{word}: {}", all.stderr);
    }
    let many = ["sweep", "--size", "1 kB..1 GB/2000", "--hop-delay", "1 us..2 us/2000"];
    rondo(&many).expect(2).says("X028").says("2000000");
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("charts").display().to_string();
    let curves = ["--size", "1 kB..1 GB/20", "--reconfiguration", "1 us..10 us/20", "-o", &into];
    rondo(&[&["sweep", "--lines"], &curves[..]].concat()).expect(2).says("20 curves are more than 8");
    rondo(&[&["sweep", "--x", "nodes"], &curves[..]].concat()).expect(2).says("size, reconfiguration");
    rondo(&[&["sweep", "--x", "size", "--y", "size"], &curves[..]].concat()).expect(2).says("the same parameter");
    rondo(&["sweep", "--x", "size"]).expect(2);
    assert!(!folder.path().join("charts").exists(), "nothing is left behind");
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    rondo(&["sweep", "-o", &file.display().to_string()]).expect(2).says("X003");
    // So many charts that none is drawn, unless they are asked for.
    let many = ["--nodes", "8..64", "--startup", "0 s..1 us/20"];
    rondo(&[&["sweep"], &many[..], &curves[..]].concat()).expect(0).says("160 charts are more than 64");
    rondo(&[&["sweep", "--x", "size"], &many[..], &curves[..]].concat()).expect(2).says("X028");
    assert_eq!(std::fs::read_dir(&into).unwrap().count(), 1);
    // One point alone has no chart.
    assert!(rondo(&["sweep", "-o", &into]).expect(0).stdout.contains("sweep.csv"));
    assert_eq!(std::fs::read_dir(&into).unwrap().count(), 1);
}
