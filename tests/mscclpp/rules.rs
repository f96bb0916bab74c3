//! For each rule a plan that only it refutes (or warns of): a good plan with one change.

use rondo::ir::diagnostic::Severity;
use rondo::judge::Verdict;
use serde_json::{Value, json};

use super::{judge, plans};

/// Codes of errors, sorted.
fn errors(text: &str) -> Vec<&'static str> {
    let judgement = judge(text);
    let mut codes: Vec<_> =
        judgement.findings.iter().filter(|f| f.severity == Severity::Error).map(|finding| finding.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// Changes one place of a plan.
fn with(plan: &Value, pointer: &str, value: Value) -> Value {
    let mut plan = plan.clone();
    match plan.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            plan.pointer_mut(parent).unwrap()[key] = value;
        }
    }
    plan
}

fn without(plan: &Value, pointer: &str) -> Value {
    let mut plan = plan.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match plan.pointer_mut(parent).unwrap() {
        Value::Object(map) => drop(map.remove(key).unwrap()),
        Value::Array(list) => drop(list.remove(key.parse().unwrap())),
        _ => panic!("{pointer}"),
    }
    plan
}

const OPS: &str = "/gpus/0/threadblocks/0/ops";

#[test]
fn each_rule_refutes_a_plan_alone() {
    let put = plans::allgather_memory(2);
    let port = plans::allgather_port(2);
    let packets = plans::allreduce_packets(2);
    let switch = plans::allreduce_switch(2, false);
    let pipeline = plans::allreduce_switch(2, true);
    let semaphore = plans::allgather_semaphore();
    let group = plans::allgather_group();
    let get = plans::allgather_get();
    let at = |op: usize, rest: &str| format!("{OPS}/{op}{rest}");
    let cases: Vec<(&str, Value)> = vec![
        ("B203", with(&switch, &at(3, "/name"), json!("glre"))),
        ("B203", with(&put, &at(3, "/name"), json!("rrcs"))),
        ("B204", with(&put, "/gpus/1/id", json!(0))),
        ("B204", with(&put, "/gpus/1/threadblocks/0/id", json!(1))),
        ("B205", with(&plans::safety_only(), "/gpus/0/input_chunks", json!(0))),
        ("B205", with(&plans::safety_only(), "/gpus/1/output_chunks", json!(0))),
        ("B206", with(&put, &at(0, "/channel_ids"), json!([1]))),
        // Entries that nothing uses.
        ("B206", with(&put, "/gpus/0/channels/0/connected_to", json!([1, 2]))),
        ("B206", with(&put, "/gpus/0/channels/0/connected_to", json!([1, 0]))),
        ("B206", with(&put, "/gpus/0/threadblocks/0/channels/0/channel_ids", json!([0, 7]))),
        ("B206", with(&put, "/gpus/0/threadblocks/0/remote_buffer_refs/0/remote_buffer_ids", json!([0, 7]))),
        ("B206", with(&put, &at(4, "/dst_buff/0/buffer_id"), json!(1))),
        ("B206", with(&semaphore, &at(8, "/semaphore_ids"), json!([3]))),
        ("B207", with(&put, &at(4, "/dst_buff/0/index"), json!(2))),
        ("B207", with(&put, &at(4, "/dst_buff/0/index"), json!(u64::MAX))),
        ("B208", with(&put, &at(4, "/src_buff/0"), plans::there(0, 0, 1))),
        ("B208", without(&put, &at(4, "/src_buff/0"))),
        ("B208", without(&port, &at(3, "/channel_ids/0"))),
        ("B208", with(&packets, "/gpus/0/remote_buffers/0/type", json!("i"))),
        ("B209", with(&get, "/gpus/0/threadblocks/1/ops/2/channel_type", json!("port"))),
        ("B209", without(&put, &at(0, "/channel_type"))),
        ("B209", with(&put, "/gpus/0/remote_buffers/0/access_channel_types", json!(["memory"]))),
        ("B210", {
            // Rank 1 has one channel to rank 0, which waits on a second one.
            let plan = with(&put, "/gpus/0/channels/0/connected_to", json!([1, 1]));
            let plan = with(&plan, "/gpus/0/threadblocks/0/channels/0/channel_ids", json!([0, 1]));
            with(&plan, &at(7, "/channel_ids"), json!([1]))
        }),
        ("B210", with(&plans::allgather_port(3), &at(3, "/channel_ids"), json!([1, 0]))),
        ("B211", with(&get, &at(3, "/num_threadblocks"), json!(3))),
        ("B211", with(&with(&get, &at(3, "/num_threadblocks"), json!(3)), &at(4, "/num_threadblocks"), json!(3))),
        ("B211", without(&get, &at(4, ""))),
        ("B212", {
            let mut plan = put.clone();
            let ops = plan.pointer_mut(OPS).unwrap().as_array_mut().unwrap();
            ops.extend(std::iter::repeat_n(plans::nop(), 65));
            plan
        }),
        ("B214", with(&switch, "/gpus/0/channels/2/rank_groups/0/size", json!(3))),
        ("B214", with(&switch, "/gpus/0/channels/2/rank_groups/0/ranks", json!([1, 0]))),
        ("B214", with(&switch, "/gpus/0/channels/2/rank_groups/0/ranks", json!([0, 2]))),
        ("B215", with(&pipeline, &at(3, "/iter_context/unit_size"), json!(0))),
        ("B216", with(&group, &at(3, "/tbg_info/tb_id"), json!(2))),
        ("B217", with(&put, &at(0, "/channel_ids"), json!([0, 0]))),
        (
            "B218",
            with(&put, "/min_message_size", json!(10))
                .to_string()
                .replacen('{', "{\"max_message_size\": 9,", 1)
                .parse()
                .unwrap(),
        ),
        ("B218", with(&put, "/buffer_alignment", json!(0))),
        ("B218", with(&plans::allgather_memory(3), "/num_threads_per_block", json!(1))),
        ("B219", with(&put, "/collective", json!("allreduce"))),
        ("B220", with(&with(&put, &at(3, "/src_buff/0/size"), json!(0)), &at(3, "/dst_buff/0/size"), json!(0))),
    ];
    for (code, plan) in cases {
        assert_eq!(errors(&format!("{plan:#}")), [code], "{plan:#}");
        assert_eq!(judge(&plan.to_string()).verdict, Verdict::Refuted, "{code}");
    }
}

#[test]
fn what_cannot_be_read_is_told_apart() {
    let put = plans::allgather_memory(2);
    let text = format!("{put:#}");
    let unreadable = |text: &str, code: &str| {
        let judgement = judge(text);
        assert_eq!(judgement.verdict, Verdict::Unreadable, "{code}");
        assert!(judgement.findings.iter().any(|finding| finding.code == code), "{:?}", judgement.findings);
        assert!(judgement.findings.iter().all(|finding| !finding.labels.is_empty()));
    };
    unreadable(&text[..text.len() - 3], "B200");
    unreadable(&text.replace("input_chunks", "inputChunks"), "B201");
    unreadable(&without(&put, "/inplace").to_string(), "B202");
    unreadable(&with(&put, "/inplace", json!("no")).to_string(), "B202");
    unreadable(&with(&put, "/gpus/0/scratch_chunks", json!(-1)).to_string(), "B202");
    unreadable(&with(&put, "/gpus/0/scratch_chunks", json!(1.5)).to_string(), "B202");
    let overflow = text.replacen("\"scratch_chunks\": 0", "\"scratch_chunks\": 99999999999999999999", 1);
    unreadable(&overflow, "B202");
}

#[test]
fn what_is_suspected_is_a_warning_that_says_so() {
    let put = plans::allgather_memory(2);
    let port = plans::allgather_port(2);
    let switch = plans::allreduce_switch(2, false);
    let get = plans::allgather_get();
    let at = |op: usize, rest: &str| format!("{OPS}/{op}{rest}");
    let flush = {
        let mut plan = with(&port, &at(3, "/name"), json!("pws"));
        let ops = plan.pointer_mut(OPS).unwrap().as_array_mut().unwrap();
        ops.insert(4, plans::sync("flush", "port", &[0]));
        plan
    };
    // The offsets differ, and so does what is read.
    let shifted = with(&get, "/gpus/0/threadblocks/1/ops/2/src_buff/0/index", json!(1));
    let memory_pws = {
        let mut plan = with(&put, &at(4, "/name"), json!("pws"));
        *plan.pointer_mut(&at(4, "/channel_ids")).unwrap_or(&mut Value::Null) = json!([0]);
        with(&plan, &at(4, "/channel_ids"), json!([0]))
    };
    // Each peer gets the same, from two buffers.
    let two_buffers = {
        let plan = plans::allgather_memory(3);
        let mut plan = with(&plan, &at(4, "/src_buff/1"), plans::here("o", 0, 1));
        plan.pointer_mut(OPS).unwrap().as_array_mut().unwrap().insert(4, plans::nop());
        plan
    };
    let cases: Vec<(&str, Value, Verdict)> = vec![
        ("B237", two_buffers, Verdict::Verified),
        ("B230", with(&put, "/colour", json!("red")), Verdict::Verified),
        ("B231", shifted, Verdict::Refuted),
        ("B232", flush, Verdict::Verified),
        // Counting its signal as meant, there is one too many.
        ("B233", memory_pws, Verdict::Refuted),
        ("B234", with(&switch, &at(3, "/reduce_op"), json!("max")), Verdict::Verified),
        ("B235", switch.clone(), Verdict::Verified),
        ("B236", with(&put, "/buffer_alignment", json!(8)), Verdict::Verified),
        ("B213", with(&put, "/gpus/0/threadblocks/0/channels/0/channel_ids", json!(vec![0; 17])), Verdict::Verified),
    ];
    for (code, plan, verdict) in cases {
        let judgement = judge(&format!("{plan:#}"));
        let finding = judgement.findings.iter().find(|finding| finding.code == code);
        let finding = finding.unwrap_or_else(|| panic!("{code}: {:?}", judgement.findings));
        assert_eq!(finding.severity, Severity::Warning);
        let by_reading = finding.notes.iter().any(|note| note.contains("by reading"));
        assert!(by_reading || code == "B230", "{finding:?}");
        assert_eq!(judgement.verdict, verdict, "{code}: {:?}", judgement.findings);
    }
    // The unchecked limits are errors for whoever names the runtime.
    let over = with(&put, "/gpus/0/threadblocks/0/channels/0/channel_ids", json!(vec![0; 17]));
    let options = rondo::judge::JudgeOptions {
        mscclpp: rondo::backends::mscclpp::Profile::named("mscclpp"),
        ..Default::default()
    };
    let judgement = rondo::judge::judge_file("plan.json", over.to_string().as_bytes(), &options);
    assert_eq!(judgement.verdict, Verdict::Refuted);
}

#[test]
fn what_cannot_be_modelled_is_unknown_and_named() {
    let packets = plans::allreduce_packets(2);
    let semaphore = plans::allgather_semaphore();
    // The start is not announced: right only if the caller synchronises between calls.
    let mut early = plans::allgather_memory(2);
    for rank in 0..2 {
        early.pointer_mut(&format!("/gpus/{rank}/threadblocks/0/ops")).unwrap().as_array_mut().unwrap().drain(..3);
    }
    // Written data ordered by relaxed signals, within the call.
    let mut relaxed = semaphore.clone();
    for rank in 0..2 {
        for (op, name) in [(5, "rlxsignal"), (6, "rlxwait")] {
            *relaxed.pointer_mut(&format!("/gpus/{rank}/threadblocks/0/ops/{op}/name")).unwrap() = json!(name);
        }
    }
    let mut ring = packets.clone();
    ring["reuse_resources"] = json!(true);
    for (code, plan) in [("V144", early), ("V146", relaxed), ("", ring)] {
        let judgement = judge(&format!("{plan:#}"));
        assert_eq!(judgement.verdict, Verdict::Unknown, "{code}: {judgement:#?}");
        assert!(code.is_empty() || judgement.findings.iter().any(|finding| finding.code == code));
    }
}

#[test]
fn calls_in_a_row_must_not_overtake() {
    // One half of scratch: a fast rank's next packets overwrite those that a slow rank has not read.
    let mut single = plans::allreduce_packets(2);
    single["use_double_scratch_buffer"] = json!(false);
    assert_eq!(errors(&format!("{single:#}")), ["V145"]);
    // Nobody waits at the end: the peer may still write.
    let mut open = plans::allreduce_rres(2);
    for rank in 0..2 {
        open.pointer_mut(&format!("/gpus/{rank}/threadblocks/0/ops")).unwrap().as_array_mut().unwrap().truncate(4);
    }
    assert!(errors(&format!("{open:#}")).contains(&"V143"));
    // One signal is left over for the next call.
    let mut over = plans::allreduce_rres(2);
    let ops = over.pointer_mut(OPS).unwrap().as_array_mut().unwrap();
    ops.push(plans::sync("signal", "memory", &[0]));
    assert_eq!(errors(&format!("{over:#}")), ["V140"]);
    // Threads run ahead without a nop.
    let mut ahead = plans::allreduce_rres(2);
    ahead.pointer_mut(OPS).unwrap().as_array_mut().unwrap().remove(4);
    assert!(!errors(&format!("{ahead:#}")).is_empty());
}

#[test]
fn a_plan_without_a_promise_is_checked_for_safety() {
    for name in ["test", "custom", "sendrecv"] {
        let plan = with(&plans::allgather_memory(2), "/collective", json!(name));
        let judgement = judge(&format!("{plan:#}"));
        assert_eq!(judgement.verdict, Verdict::Verified, "{:#?}", judgement.findings);
        assert!(judgement.against[0].starts_with("no claim"), "{:?}", judgement.against);
        let broken = without(&plan, &format!("{OPS}/5"));
        assert_ne!(judge(&format!("{broken:#}")).verdict, Verdict::Verified);
    }
}

#[test]
fn findings_stand_at_their_line() {
    let plan = with(&plans::allgather_memory(2), &format!("{OPS}/4/dst_buff/0/index"), json!(7));
    let text = format!("{plan:#}");
    let judgement = judge(&text);
    let label = &judgement.findings[0].labels[0];
    let line = text[..label.start].lines().count();
    let shown: String = text.lines().skip(line - 1).take(5).collect();
    assert!(shown.contains("\"index\": 7"), "{shown}");
}

#[test]
fn cut_files_and_huge_numbers_do_no_harm() {
    let text = plans::allgather_pipeline().to_string();
    for end in 0..text.len() {
        assert_ne!(judge(&text[..end]).verdict, Verdict::Verified, "{end}");
    }
    for number in ["1000000000", "4294967295", "4294967296", "18446744073709551615"] {
        for key in [
            "input_chunks",
            "output_chunks",
            "scratch_chunks",
            "index",
            "size",
            "init_value",
            "unit_size",
            "num_chunks",
            "id",
        ] {
            let old = format!("\"{key}\":1");
            let judgement = judge(&text.replacen(&old, &format!("\"{key}\":{number}"), 1));
            let same = !text.contains(&old);
            // A unit may be as large as it likes.
            assert!(same || key == "unit_size" || judgement.verdict != Verdict::Verified, "{key} {number}");
        }
        let test = text
            .replace("\"allgather\"", "\"test\"")
            .replace("\"scratch_chunks\":1", &format!("\"scratch_chunks\":{number}"));
        assert_ne!(judge(&test).verdict, Verdict::Unreadable);
    }
    let deep = format!("{{\"collective\":\"x\",\"gpus\":{}", "[".repeat(100_000));
    assert_eq!(judge(&deep).verdict, Verdict::Unreadable);
}

#[test]
fn packets_awaited_before_they_are_sent_are_a_deadlock() {
    let mut plan = plans::allreduce_packets(2);
    for rank in 0..2 {
        // The sum waits for the peer's packets before the own ones are sent.
        plan.pointer_mut(&format!("/gpus/{rank}/threadblocks/0/ops")).unwrap().as_array_mut().unwrap().swap(0, 1);
    }
    assert_eq!(errors(&format!("{plan:#}")), ["V114"]);
    // The same where the waiting operation is shorter than the sending one.
    for rank in 0..2 {
        let gpu = plan.pointer_mut(&format!("/gpus/{rank}")).unwrap();
        gpu["scratch_chunks"] = json!(4);
        gpu["input_chunks"] = json!(2);
        gpu["output_chunks"] = json!(2);
        let part = |chunk: u32| plans::here("s", 2 * (1 - rank) + chunk, 1);
        let sum = |chunk: u32| {
            plans::local("repkt", vec![plans::here("i", chunk, 1), part(chunk)], vec![plans::here("i", chunk, 1)])
        };
        let send = plans::data("ppkt", "memory", vec![plans::here("i", 0, 2)], vec![plans::there(0, 2 * rank, 2)]);
        gpu["threadblocks"][0]["ops"] = json!([sum(1), send, sum(0)]);
    }
    assert!(errors(&format!("{plan:#}")).contains(&"V114"), "{:?}", errors(&format!("{plan:#}")));
}
