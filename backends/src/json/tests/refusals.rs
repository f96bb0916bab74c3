//! Files that must be refused: each with its code, what is said, and the piece of text that is pointed at.

use rondo_ir::index::RankId;
use rondo_ir::program::{Operation, OperationKind, Program};

use super::super::{LOOP_DEPTH_LIMIT, MAX_FAULTS, Plan, flow_span, looks_like_plan, parse, to_text};
use super::{Random, fixtures, plan, read, text_of};

const EXAMPLE: &str = include_str!("../testdata/example.json");
const PROGRAM: &str = include_str!("../../../../tests/plans/put-signal-wait.json");
const CIRCUITS: &str = include_str!("../../../../tests/plans/circuit-change.json");
const SPLIT: &str = include_str!("../../../../tests/plans/split-route.json");
const ORBITS: &str = include_str!("../../../../tests/plans/orbits.json");

/// Changes `from` into `to` in `file`, and expects one fault: its code, a part of its message or help, and the text at its
/// place.
#[track_caller]
fn check(file: &str, from: &str, to: &str, code: &str, said: &str, at: &str) {
    assert!(file.contains(from), "`{from}` is not in the file");
    let text = file.replacen(from, to, 1);
    let faults = parse("plan.json", text.as_bytes()).expect_err("this must be refused");
    let fault = &faults[0];
    assert_eq!(faults.len(), 1, "{faults:#?}");
    assert_eq!(fault.code, code, "{fault:#?}");
    let said_in_all = [std::slice::from_ref(&fault.message), &fault.notes[..], &fault.help[..]].concat();
    let all = said_in_all.join(" ");
    assert!(all.contains(said), "{all}\ndoes not say\n{said}");
    let label = &fault.labels[0];
    assert_eq!(label.file, "plan.json");
    assert_eq!(&text[label.start..label.end], at, "{fault:#?}");
}

#[test]
fn keys() {
    check(
        EXAMPLE,
        "\"chunks\"",
        "\"chunk\"",
        "B103",
        "schedule: unknown key `chunk` did you mean `chunks`?",
        "\"chunk\"",
    );
    let link = "\"kind\": \"compute\", \"forwards\"";
    let node = "problem.topology.nodes[0]: unknown key `farwords` did you mean `forwards`?";
    check(EXAMPLE, link, "\"kind\": \"compute\", \"farwords\"", "B103", node, "\"farwords\"");
    check(EXAMPLE, "\"version\"", "\"xyz\": 1, \"version\"", "B103", "known here: format, version,", "\"xyz\"");
    check(EXAMPLE, "\"placement\": [0,1],", "", "B104", "problem: missing field `placement`", "{");
    check(EXAMPLE, " \"chunks\": [1],", "\"chunks\": [1], \"chunks\": [1],", "B104", "duplicate field", "\"chunks\"");
}

#[test]
fn claimed_times() {
    let claimed = |inside: &str| format!("\"version\": \"1.0\", \"claimed\": {{{inside}}}");
    let from = "\"version\": \"1.0\"";
    let said = "claimed.time: `soon` is no exact time";
    check(EXAMPLE, from, &claimed("\"time\": \"soon\""), "B104", said, "\"soon\"");
    check(EXAMPLE, from, &claimed("\"time\": \"soon\", \"steps\": []"), "B104", said, "\"soon\"");
    let said = "claimed.steps[1]: `1/0` is no exact time";
    check(EXAMPLE, from, &claimed("\"steps\": [\"1/2\", \"1/0\"]"), "B104", said, "\"1/0\"");
    check(EXAMPLE, from, &claimed("\"time\": 3"), "B104", "claimed.time: invalid type", "3");
}

#[test]
fn format_and_version() {
    check(EXAMPLE, "\"1.0\"", "\"2.0\"", "B102", "this plan is version 2.0; this rondo reads 1.x", "\"2.0\"");
    check(EXAMPLE, "\"1.0\"", "\"1.x\"", "B102", "this plan is version 1.x;", "\"1.x\"");
    check(
        EXAMPLE,
        "rondo.plan",
        "rondo.job",
        "B100",
        "`rondo.job`, a plan of Rondo says `rondo.plan`",
        "\"rondo.job\"",
    );
    assert!(parse("x", EXAMPLE.replacen("\"1.0\"", "\"1.7\"", 1).as_bytes()).is_ok());
}

#[test]
fn rows() {
    let row = "[0,\"o\",0,1,\"o\",0,1,\"copy\",0]";
    let path = "schedule.steps[0].flows[0]";
    check(EXAMPLE, row, "[0,\"o\",0,1,\"o\",0,0,\"copy\",0]", "B104", "a flow moves at least 1 slot", "0");
    check(
        EXAMPLE,
        row,
        "[0,\"x\",0,1,\"o\",0,1,\"copy\",0]",
        "B104",
        &format!("{path}[1]: invalid value: string \"x\""),
        "\"x\"",
    );
    let slot = "[0,\"o\",1073741823,1,\"o\",0,1,\"copy\",0]";
    check(EXAMPLE, row, slot, "B104", "slots 1073741823 … 1073741823 are out of range", "1");
    check(
        EXAMPLE,
        row,
        "[0,\"o\",0,1,\"o\",0,1,\"copy\"]",
        "B104",
        "invalid length 8",
        "[0,\"o\",0,1,\"o\",0,1,\"copy\"]",
    );
    check(
        EXAMPLE,
        row,
        "[0,\"o\",0,1,\"o\",0,1,\"copy\",0,0,0]",
        "B104",
        "invalid length 11",
        "[0,\"o\",0,1,\"o\",0,1,\"copy\",0,0,0]",
    );
    check(EXAMPLE, row, "[0,\"o\",0,1,\"o\",0,1.5,\"copy\",0]", "B104", "expected u32", "1.5");
    check(EXAMPLE, row, "[0,\"o\",0,1,\"o\",0,-1,\"copy\",0]", "B104", "expected u32", "-1");
    check(
        EXAMPLE,
        row,
        "[0,\"o\",0,1,\"o\",0,1,\"copy\",1073741824]",
        "B104",
        "path 1073741824 is out of range",
        "1073741824",
    );
    check(
        EXAMPLE,
        row,
        "[2,\"o\",0,1,\"o\",0,1,\"copy\",0]",
        "B106",
        &format!("{path}[0]: rank 2 does not exist; there are 2, 0 … 1"),
        "2",
    );
    check(EXAMPLE, row, "[0,\"o\",0,7,\"o\",0,1,\"copy\",0]", "B106", &format!("{path}[3]: rank 7 does not"), "7");
    check(EXAMPLE, row, "[0,\"o\",0,1,\"o\",0,1,\"copy\",5]", "B106", "route 5 does not exist; there are 2", "5");
    check(
        EXAMPLE,
        row,
        "[0,\"o\",0,1,\"o\",0,1,\"copy\",[\"multicast\",0]]",
        "B106",
        "tree 0 does not exist; there are none",
        "[\"multicast\",0]",
    );
    check(
        EXAMPLE,
        row,
        "[0,\"o\",0,1,\"o\",0,1,\"copy\",0,1]",
        "B106",
        "group 1 does not exist; there is only group 0",
        "1",
    );
}

#[test]
fn quantities() {
    check(EXAMPLE, "\"25 GB/s\"", "\"25\"", "B105", "problem.topology.links[0][2]: `25` has no unit", "\"25\"");
    check(EXAMPLE, "\"25 GB/s\"", "\"0 GB/s\"", "B105", "at least 1 B/s", "\"0 GB/s\"");
    check(EXAMPLE, "\"1 us\"", "\"1 parsec\"", "B105", "problem.cost.startup: unknown unit `parsec`", "\"1 parsec\"");
    check(
        EXAMPLE,
        "\"1 MiB\"",
        "\"3 B\"",
        "B109",
        "problem.groups[0].collective: 3 B is no multiple of 4 B",
        "{\"kind\": \"all_gather\", \"operator\": \"sum\", \"dtype\": \"float32\", \"buffer_size\": \"3 B\", \"in_place\": true}",
    );
    check(SPLIT, "\"1/3\"", "\"0.3\"", "B105", "`0.3` is no fraction", "\"0.3\"");
    check(SPLIT, "\"1/3\"", "\"1/0\"", "B105", "between 0 and 1", "\"1/0\"");
    check(SPLIT, "\"1/3\"", "\"4/3\"", "B105", "between 0 and 1", "\"4/3\"");
    check(SPLIT, "\"1/3\"", "\"1/1099511627777\"", "B111", "common denominator above 2^40", "\"1/1099511627777\"");
}

#[test]
fn ids_of_everything_else() {
    check(
        EXAMPLE,
        "[0,1,\"25 GB/s\"",
        "[0,5,\"25 GB/s\"",
        "B106",
        "problem.topology.links[0][1]: node 5 does not",
        "5",
    );
    check(
        EXAMPLE,
        "[0,1,\"25 GB/s\"",
        "[0,0,\"25 GB/s\"",
        "B108",
        "joins a node to itself",
        "[0,0,\"25 GB/s\",\"500 ns\"]",
    );
    check(EXAMPLE, "\"placement\": [0,1]", "\"placement\": [0,9]", "B106", "problem.placement[1]: node 9", "9");
    check(
        EXAMPLE,
        "\"placement\": [0,1]",
        "\"placement\": [0,0]",
        "B110",
        "ranks r0 and r1 are both placed on node `gpu0`",
        "0",
    );
    check(EXAMPLE, "\"gpu1\"", "\"gpu0\"", "B108", "two nodes are named `gpu0`", "\"gpu0\"");
    check(EXAMPLE, "\"ranks\": [0,1]", "\"ranks\": [0,3]", "B106", "problem.groups[0].ranks[1]: rank 3", "3");
    check(EXAMPLE, "\"ranks\": [0,1]", "\"ranks\": [1,1]", "B110", "stands twice", "[1,1]");
    check(EXAMPLE, "  [0],\n", "  [7],\n", "B106", "schedule.routes[0][0]: link 7 does not exist", "7");
    check(
        EXAMPLE,
        "  [0],\n",
        "  [1],\n",
        "B107",
        "schedule.routes[1]: this route is already there as number 0",
        "[1]",
    );
    check(EXAMPLE, "\"chunks\": [1]", "\"chunks\": [1,1]", "B107", "schedule.chunks: 2 entries; 1 are needed", "[1,1]");
    check(EXAMPLE, "\"chunks\": [1]", "\"chunks\": [0]", "B109", "a block needs at least 1 chunk", "0");
    check(
        EXAMPLE,
        "\"chunks\": [1]",
        "\"chunks\": [4294967295]",
        "B109",
        "at most 1073741823 can be numbered",
        "4294967295",
    );
    check(
        EXAMPLE,
        " \"steps\"",
        " \"dependencies\": [[0,2]],\n \"steps\"",
        "B106",
        "schedule.dependencies[0][1]: flow 2",
        "2",
    );
    check(
        EXAMPLE,
        "all_gather\"",
        "broadcast\"",
        "B109",
        "needs `root`",
        "{\"kind\": \"broadcast\", \"operator\": \"sum\", \"dtype\": \"float32\", \"buffer_size\": \"1 MiB\", \"in_place\": true}",
    );
    check(EXAMPLE, "all_gather\"", "all_gather\", \"root\": 0", "B109", "all_gather has no `root`", "0");
    check(
        EXAMPLE,
        "\"flows\"",
        "\"representatives\"",
        "B107",
        "a step has `flows`, or it has",
        "{\"representatives\": [",
    );
    check(CIRCUITS, "[0,\"duplex\"", "[4,\"duplex\"", "B106", "problem.topology.devices[0].ports[0][0]: node 4", "4");
    check(
        CIRCUITS,
        "[[0,0,1]]",
        "[[0,0,9]]",
        "B106",
        "schedule.routes[0][0]: port 9 does not exist; there are 4",
        "[0,0,9]",
    );
    check(CIRCUITS, "[[0,0,1]]", "[[1,0,1]]", "B106", "device 1 does not exist; there is only device 0", "[1,0,1]");
    check(
        CIRCUITS,
        "\"set\": [[0,[[0,2]",
        "\"set\": [[0,[[0,8]",
        "B106",
        "schedule.steps[1].set[0][1][0][1]: port 8",
        "8",
    );
    check(
        CIRCUITS,
        "[[0,1],[1,0],[2,3],[3,2]]",
        "[[0,1],[2,3],[3,2]]",
        "B110",
        "must be joined in both directions",
        "[",
    );
    check(
        ORBITS,
        "\"ranks\": [1,2,0]",
        "\"ranks\": [1,2]",
        "B107",
        "schedule.generators[0].ranks: 2 entries; 3 are",
        "[1,2]",
    );
    check(ORBITS, "\"ranks\": [1,2,0]", "\"ranks\": [1,2,3]", "B106", "schedule.generators[0].ranks[2]: rank 3", "3");
    check(ORBITS, "{\"generators\": [0]", "{\"generators\": [1]", "B106", "generator 1 does not exist", "1");
    check(
        EXAMPLE,
        "\"schedule\": {",
        "\"claim\": {\"collective\": {\"kind\": \"all_reduce\", \"operator\": \"sum\", \"dtype\": \"int8\", \"in_place\": true}, \"ranks\": 1, \"chunks\": 1},\n\"schedule\": {",
        "B107",
        "this one has problem, schedule, claim",
        "{",
    );
}

#[test]
fn programs() {
    let put = "\"src\": [\"i\",0], \"to\": [[1,\"s\",0]]";
    let at = "program.ranks[0].threadblocks[0].operations[1]";
    check(
        PROGRAM,
        put,
        "\"src\": [\"i\",0], \"to\": [[2,\"s\",0]]",
        "B106",
        &format!("{at}.to[0][0]: rank 2 does not"),
        "2",
    );
    let whole = "{\"op\": \"put\", \"to\": [[1,\"s\",0]], \"count\": 1}";
    check(PROGRAM, put, "\"to\": [[1,\"s\",0]]", "B104", "a `put` needs `src`", whole);
    let whole = "{\"op\": \"put\", \"src\": [\"i\",0], \"to\": [[1,\"s\",0]], \"peer\": 1, \"count\": 1}";
    check(PROGRAM, put, &format!("{put}, \"peer\": 1"), "B104", &format!("{at}: a `put` has no `peer`"), whole);
    check(
        PROGRAM,
        "\"op\": \"put\"",
        "\"op\": \"shove\"",
        "B104",
        "unknown variant `shove`, expected one of `nop`, `move`",
        "\"shove\"",
    );
    check(
        PROGRAM,
        "\"peer\": 1, \"counter\": 0",
        "\"peer\": 1, \"counter\": 0, \"after\": [[0,5]]",
        "B106",
        "after[0][1]: operation 5 does not",
        "5",
    );
    check(
        PROGRAM,
        "\"peer\": 1, \"counter\": 0",
        "\"peer\": 1, \"counter\": 0, \"after\": [[1,0]]",
        "B106",
        "threadblock 1 does not",
        "1",
    );
    check(
        PROGRAM,
        "\"ranks\": 2, \"chunks\"",
        "\"ranks\": 4294967295, \"chunks\"",
        "B107",
        "program.ranks: 2 entries; 4294967295 are needed",
        "[",
    );
}

#[test]
fn what_is_no_plan() {
    #[track_caller]
    fn check(bytes: &[u8], code: &str, said: &str) {
        let faults = parse("-", bytes).expect_err("this must be refused");
        assert_eq!((faults[0].code, faults.len()), (code, 1), "{faults:#?}");
        assert!(faults[0].message.contains(said), "{faults:#?}");
    }
    check(b"", "B100", "the file is empty");
    check(b" \n\t", "B100", "white space");
    check(b"\x7fELF\x02\x01\xff\xfe", "B100", "not UTF-8");
    check("\u{feff}<algo/>".as_bytes(), "B100", "begins with `<`");
    check(b"\x00\x01\x02", "B100", "begins with `\\u{0}`");
    check(b"{}", "B104", "missing field `format`");
    check(b"{\"format\": \"rondo.plan\"}", "B104", "missing field `version`");
    check(b"{\"format\": \"rondo.plan\", \"version\": \"1.0\"}", "B107", "this one has none of them");
    check(b"{\"format\": \"rondo.plan\", \"version\": \"1.0\"} {", "B101", "trailing characters");
    check(b"{\"format\": \"rondo.plan\", \"version\": \"1.0\",}", "B101", "trailing comma");
    check(b"{\"format\": \"rondo.plan\", \"vers", "B101", "ends too early");
    check(b"{\"format\": null}", "B104", "format: invalid type: null");
    let deep = format!("{{\"format\": \"rondo.plan\", \"version\": \"1.0\", \"placement\": {}", "[".repeat(1 << 20));
    check(deep.as_bytes(), "B103", "unknown key `placement`");
    let deep = EXAMPLE.replacen("\"hops\"", "", 1).replacen("  [0],", &"[".repeat(1 << 20), 1);
    check(deep.as_bytes(), "B104", "schedule.routes[0]");
    let loops = r#"{"op":"loop","times":1,"body":["#.repeat(1 << 16);
    let deep = PROGRAM.replacen("{\"op\": \"put\"", &loops, 1);
    check(deep.as_bytes(), "B101", "recursion limit");
    let huge = EXAMPLE.replacen("\"chunks\": [1]", &format!("\"chunks\": [{}]", "9".repeat(1 << 20)), 1);
    assert!(parse("-", huge.as_bytes()).is_err());
    let long = EXAMPLE.replacen("\"chunks\": [1]", &format!("\"chunks\": \"{}\"", "x".repeat(1 << 20)), 1);
    assert!(parse("-", long.as_bytes()).unwrap_err()[0].message.len() < 1000);
    let time = format!("\"claimed\": {{\"time\": \"{}/1\"}}, \"problem\"", "7".repeat(1 << 20));
    let time = EXAMPLE.replacen("\"problem\"", &time, 1);
    check(time.as_bytes(), "B104", "at most 1000 are read");
}

#[test]
fn a_byte_order_mark_shifts_the_places() {
    let text = format!("\u{feff}{EXAMPLE}");
    assert_eq!(parse("x", text.as_bytes()).as_ref(), Ok(&read(EXAMPLE)));
    check(&text, "\"25 GB/s\"", "\"25\"", "B105", "has no unit", "\"25\"");
    check(&text, "\"chunks\"", "\"chunk\"", "B103", "unknown key", "\"chunk\"");
}

#[test]
fn all_faults_come_at_once_and_the_rest_is_counted() {
    let text = EXAMPLE
        .replace("25 GB/s", "25 GB")
        .replace("[0,\"o\"", "[5,\"o\"")
        .replace("\"chunks\": [1]", "\"chunks\": []");
    let faults = parse("x", text.as_bytes()).unwrap_err();
    let codes: Vec<_> = faults.iter().map(|fault| fault.code).collect();
    assert_eq!(codes, ["B105", "B105", "B107", "B106"]);
    let rows = "[9,\"o\",0,1,\"o\",0,1,\"copy\",0],\n".repeat(1000);
    let text = EXAMPLE.replacen("[0,\"o\"", &format!("{rows}[0,\"o\""), 1);
    let faults = parse("x", text.as_bytes()).unwrap_err();
    assert_eq!(faults.len(), MAX_FAULTS);
    assert_eq!(
        faults[MAX_FAULTS - 1].notes,
        [format!("{} more faults of this file are not listed", 1000 - MAX_FAULTS)]
    );
}

#[test]
fn groups_times_ranks_is_bounded() {
    let nodes: Vec<String> =
        (0..5000).map(|i| format!(r#"{{"name":"n{i}","kind":"compute","forwards":false}}"#)).collect();
    let placement: Vec<String> = (0..5000).map(|i| i.to_string()).collect();
    let group = r#"{"collective":{"kind":"all_reduce","operator":"sum","dtype":"int8","buffer_size":"1 B","in_place":true},"ranks":[0]}"#;
    let text = format!(
        r#"{{"format":"rondo.plan","version":"1.0","problem":{{"topology":{{"name":"","nodes":[{}],"links":[]}},
        "placement":[{}],"groups":[{}],"cost":{{"startup":"0 s","reduce_cost":"0 s/B","copy_cost":"0 s/B","synchronisation":"0 s"}}}},
        "schedule":{{"algorithm":"","chunks":[{}],"steps":[]}}}}"#,
        nodes.join(","),
        placement.join(","),
        vec![group; 5000].join(","),
        vec!["1"; 5000].join(",")
    );
    let faults = parse("x", text.as_bytes()).unwrap_err();
    assert_eq!(faults[0].code, "B111");
    assert!(faults[0].message.contains("5000 groups over 5000 ranks are too many; the product is at most 16777216"));
}

#[test]
fn loops_are_written_as_deep_as_they_are_read() {
    let nested = |depth: usize| {
        let mut operation = Operation::new(OperationKind::Signal { peer: RankId::new(0), counter: 0 });
        for _ in 0..depth {
            operation = Operation::new(OperationKind::Loop { times: 2, body: vec![operation] });
        }
        let Plan::Program { claim, mut program } = read(PROGRAM) else { panic!("a program was expected") };
        program.ranks[0].threadblocks[0].operations.push(operation);
        Plan::Program { claim, program }
    };
    let deepest = nested(LOOP_DEPTH_LIMIT);
    assert_eq!(text_of(&read(&text_of(&deepest))), text_of(&deepest));
    let error = to_text(nested(LOOP_DEPTH_LIMIT + 1).as_ref()).unwrap_err();
    assert_eq!(error.to_string(), "loops are nested 33 deep; a plan file holds at most 32");
    let text = text_of(&deepest);
    let body = format!(r#"{{"op": "loop", "times": 1, "body": [{}]}}"#, r#"{"op": "nop"}"#);
    let deeper = text.replacen(r#"{"op": "signal", "peer": 0, "counter": 0}"#, &body, 1);
    assert!(deeper != text);
    let faults = parse("x", deeper.as_bytes()).unwrap_err();
    assert_eq!(faults[0].code, "B111", "{faults:#?}");
    assert_eq!(Program::default().operation_count(), 0);
}

#[test]
fn content_is_recognised_by_its_beginning() {
    for (_, text) in fixtures() {
        assert!(looks_like_plan(text.as_bytes()));
        assert!(looks_like_plan(format!("\u{feff}\n {text}").as_bytes()));
    }
    for other in [&b""[..], b"{", b"{\"name\": \"allreduce\"}", b"<algo>\"rondo.plan\"", b"[\"rondo.plan\"]"] {
        assert!(!looks_like_plan(other));
    }
}

#[test]
fn flows_are_found_in_the_text() {
    assert_eq!(&EXAMPLE[flow_span(EXAMPLE, 0, 1).unwrap()], "[1,\"o\",1,0,\"o\",1,1,\"copy\",1]");
    assert_eq!(flow_span(EXAMPLE, 0, 2), None);
    assert_eq!(&ORBITS[flow_span(ORBITS, 1, 0).unwrap()], "[1,\"o\",0,2,\"o\",0,1,\"copy\",1]");
}

/// Whatever is read must be safe to walk and to write; whatever is refused must point into the text.
fn survives(bytes: &[u8]) {
    match parse("mutant", bytes) {
        Ok(plan) => {
            let text = text_of(&plan);
            assert_eq!(text_of(&read(&text)), text);
            if let Plan::Schedule { problem, schedule, .. } = &plan {
                let mut lines = String::new();
                rondo_ir::text::write_schedule(&mut lines, problem, schedule).unwrap();
            }
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            for label in faults.iter().flat_map(|fault| &fault.labels) {
                assert!(label.start <= label.end && label.end <= bytes.len(), "{faults:#?}");
                if let Ok(text) = std::str::from_utf8(bytes) {
                    assert!(text.is_char_boundary(label.start) && text.is_char_boundary(label.end), "{faults:#?}");
                }
            }
        }
    }
}

#[test]
fn cut_files_are_refused() {
    for (name, text) in fixtures() {
        let end = text.trim_end().len();
        for cut in (0..end).step_by(7).chain([end - 1]) {
            let bytes = &text.as_bytes()[..cut];
            assert!(parse("cut", bytes).is_err(), "{name} cut at {cut}");
            survives(bytes);
        }
    }
}

#[test]
fn mutated_files_never_panic() {
    let mut random = Random(7);
    let mut texts: Vec<String> = fixtures().into_iter().map(|(_, text)| text).collect();
    texts.extend((0..30).map(|seed| text_of(&plan(seed))));
    let pieces: [&[u8]; 16] = [
        b"0",
        b"9",
        b"-",
        b".",
        b"e",
        b"\"",
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b":",
        b"4294967295",
        b"null",
        b"\\u0000",
        b"\xc3",
    ];
    for round in 0..6000 {
        let mut bytes = texts[round % texts.len()].clone().into_bytes();
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len());
            let end = (at + random.below(4)).min(bytes.len());
            let piece = match random.below(3) {
                0 => Vec::new(),
                1 => random.pick(&pieces).to_vec(),
                _ => {
                    let from = random.below(bytes.len());
                    bytes[from..(from + random.below(40)).min(bytes.len())].to_vec()
                }
            };
            bytes.splice(at..end, piece);
        }
        survives(&bytes);
    }
}
