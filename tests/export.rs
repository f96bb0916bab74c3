//! `rondo export`: what the options put into the file.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Run, rondo, rondo_with};

/// The plan of a job, out of place.
fn plan() -> String {
    rondo(&["compile", "examples/ring8/job.toml", "-o", "-"]).expect(0).stdout
}

fn export(plan: &str, options: &[&str]) -> Run {
    let fixed = ["export", "-", "-o", "-", "--to"];
    rondo_with(&[&fixed[..], options].concat(), plan.as_bytes())
}

/// The value of an attribute of the file's first element.
#[track_caller]
fn attribute(file: &str, name: &str) -> String {
    let start = file.find(&format!(" {name}=\"")).unwrap_or_else(|| panic!("no {name} in {file}")) + name.len() + 3;
    file[start..].split('"').next().unwrap().to_owned()
}

#[test]
fn options_reach_the_file() {
    let plan = plan();
    let file = export(&plan, &["msccl-xml:unlimited"]).expect(0).stdout;
    // 1 MiB is what the plan was compiled for.
    let read = |file: &str| ["name", "inplace", "outofplace", "minBytes"].map(|name| attribute(file, name));
    let [_, inside, outside, low] = read(&file);
    assert_eq!([inside.as_str(), outside.as_str(), low.as_str()], ["0", "1", "0"]);
    let options = ["msccl-xml:azure", "--sizes", "64 KiB..1 GiB", "--in-place", "--out-of-place", "--name", "mine"];
    let file = export(&plan, &options).expect(0).stdout;
    assert_eq!(read(&file), ["mine", "1", "1", "65536"]);
    assert_eq!(attribute(&file, "maxBytes"), (1_u64 << 30).to_string());
    let file = export(&plan, &["msccl-xml:azure", "--in-place"]).expect(0).stdout;
    assert_eq!([attribute(&file, "inplace"), attribute(&file, "outofplace")], ["1", "0"]);
}

#[test]
fn instances_cut_every_chunk() {
    let plan = plan();
    let chunks = |options: &[&str]| {
        let file = export(&plan, options).expect(0).stdout;
        attribute(&file, "nchunksperloop").parse::<u32>().unwrap()
    };
    let one = chunks(&["msccl-xml:unlimited"]);
    assert_eq!(chunks(&["msccl-xml:unlimited", "--instances", "1"]), one);
    assert_eq!(chunks(&["msccl-xml:unlimited", "--instances", "3"]), 3 * one);
}

#[test]
fn what_cannot_be_is_refused() {
    let plan = plan();
    let refused = |options: &[&str]| export(&plan, options).expect(2);
    refused(&["msccl-xml:azure", "--sizes", "1 GiB..64 KiB"]).says("X005").says("--sizes '64 KiB..1 GiB'");
    refused(&["msccl-xml:azure", "--sizes", "64"]).says("X005").says("has no unit");
    refused(&["msccl-xml:azure", "--instances", "0"]);
    refused(&["json", "--in-place"]).says("X005").says("--in-place");
    refused(&["json", "--name", "mine"]).says("X005").says("--name");
}
