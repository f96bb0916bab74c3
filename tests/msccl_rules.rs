//! For each rule of the MSCCL XML format a file that breaks only it: what breaks is written here from the runtimes' sources,
//! and switching a rule off turns its line red. The page of the rules is made here too.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rondo::backends::msccl_xml::{Effect, Fate, RULES, examine, parse};
use rondo::ir::diagnostic::CodeEntry;
use rondo::ir::profile::{RuntimeProfile, SizeEnd};
use rondo::judge::{JudgeOptions, Verdict, judge_file};

/// One instruction: type, source, destination, count, dependency, hasdep.
fn step(s: usize, kind: &str, src: &str, dst: &str, count: u32, dep: (i32, i32), publishes: u8) -> String {
    let ((sb, so), (db, d)) = (src.split_at(1), dst.split_at(1));
    format!(
        "      <step s=\"{s}\" type=\"{kind}\" srcbuf=\"{sb}\" srcoff=\"{so}\" dstbuf=\"{db}\" dstoff=\"{d}\" \
         cnt=\"{count}\" depid=\"{}\" deps=\"{}\" hasdep=\"{publishes}\"/>\n",
        dep.0, dep.1
    )
}

const FREE: (i32, i32) = (-1, -1);

fn algo(coll: &str, ranks: u32, chunks: u32, gpus: &str) -> String {
    format!(
        "<algo name=\"test\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"{chunks}\" ngpus=\"{ranks}\" \
         coll=\"{coll}\" inplace=\"0\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"1048576\">\n{gpus}</algo>\n"
    )
}

fn gpu(id: u32, chunks: [u32; 3], blocks: &str) -> String {
    let [i, o, s] = chunks;
    format!("  <gpu id=\"{id}\" i_chunks=\"{i}\" o_chunks=\"{o}\" s_chunks=\"{s}\">\n{blocks}  </gpu>\n")
}

fn tb(id: usize, peers: (i32, i32), channel: u32, steps: &str) -> String {
    let (send, recv) = peers;
    format!("    <tb id=\"{id}\" send=\"{send}\" recv=\"{recv}\" chan=\"{channel}\">\n{steps}    </tb>\n")
}

/// All-reduce of two ranks that every runtime loads: send all, add what comes. `more` instructions follow in the one
/// threadblock, `blocks` after it.
fn all_reduce_with(count: u32, scratch: u32, more: &str, blocks: &str) -> String {
    let gpus: String = (0..2)
        .map(|r| {
            let steps = [
                step(0, "s", "i0", "i0", count, FREE, 0),
                step(1, "cpy", "i0", "o0", count, FREE, 0),
                step(2, "r", "s0", "s0", count, FREE, 0),
                step(3, "re", "s0", "o0", count, FREE, 0),
            ];
            let peer = 1 - i32::try_from(r).unwrap();
            let own = tb(0, (peer, peer), 0, &(steps.concat() + more));
            gpu(r, [count, count, scratch], &(own + blocks))
        })
        .collect();
    algo("allreduce", 2, count, &gpus)
}

fn all_reduce() -> String {
    all_reduce_with(2, 8, "", "")
}

/// `n` copies that nobody looks at.
fn copies(from: usize, n: usize) -> String {
    (0..n).map(|k| step(from + k, "cpy", "i0", "s7", 1, FREE, 0)).collect()
}

/// `n` threadblocks from number `first` on, of `steps` copies each, to scratch chunks of their own.
fn idle_blocks(first: usize, n: usize, steps: usize) -> String {
    (first..first + n)
        .map(|id| {
            let place = format!("s{}", 8 + id);
            let steps: String = (0..steps).map(|k| step(k, "cpy", "i0", &place, 1, FREE, 0)).collect();
            tb(id, (-1, -1), 0, &steps)
        })
        .collect()
}

/// Rank 0 has a second threadblock that names its peer, and only copies.
fn idle_owner() -> String {
    let idle = tb(1, (-1, -1), 0, &copies(0, 1));
    all_reduce_with(2, 8, "", &idle).replacen("<tb id=\"1\" send=\"-1\"", "<tb id=\"1\" send=\"1\"", 1)
}

fn reduce_scatter(name: &str) -> String {
    let gpus: String = (0..2_u32)
        .map(|r| {
            let steps = [
                step(0, "s", &format!("i{}", 1 - r), "i0", 1, FREE, 0),
                step(1, "cpy", &format!("i{r}"), "o0", 1, FREE, 0),
                step(2, "r", "s0", "s0", 1, FREE, 0),
                step(3, "re", "s0", "o0", 1, FREE, 0),
            ];
            let peer = 1 - i32::try_from(r).unwrap();
            gpu(r, [2, 1, 1], &tb(0, (peer, peer), 0, &steps.concat()))
        })
        .collect();
    algo(name, 2, 2, &gpus)
}

fn all_to_all(name: &str) -> String {
    let gpus: String = (0..2_u32)
        .map(|r| {
            let other = 1 - r;
            let steps = [
                step(0, "s", &format!("i{other}"), &format!("i{other}"), 1, FREE, 0),
                step(1, "cpy", &format!("i{r}"), &format!("o{r}"), 1, FREE, 0),
                step(2, "r", &format!("o{other}"), &format!("o{other}"), 1, FREE, 0),
            ];
            let peer = 1 - i32::try_from(r).unwrap();
            gpu(r, [2, 2, 0], &tb(0, (peer, peer), 0, &steps.concat()))
        })
        .collect();
    algo("alltoall", 2, 2, &gpus).replace("name=\"test\"", &format!("name=\"{name}\""))
}

/// Every rank sends to every other on one channel.
fn all_gather(n: u32) -> String {
    let gpus: String = (0..n)
        .map(|r| {
            let mut blocks = tb(0, (-1, -1), 0, &step(0, "cpy", "i0", &format!("o{r}"), 1, FREE, 0));
            for (id, peer) in (1..).zip((0..n).filter(|&peer| peer != r)) {
                let place = format!("o{peer}");
                let steps = step(0, "s", "i0", "i0", 1, FREE, 0) + &step(1, "r", &place, &place, 1, FREE, 0);
                let peer = i32::try_from(peer).unwrap();
                blocks += &tb(id, (peer, peer), 0, &steps);
            }
            gpu(r, [1, n, 0], &blocks)
        })
        .collect();
    algo("allgather", n, n, &gpus)
}

/// A chain of `n` ranks from rank 0.
fn broadcast(n: i32) -> String {
    let mut gpus = String::new();
    for r in 0..n {
        let next = if r + 1 < n { r + 1 } else { -1 };
        let mut steps = String::new();
        if r == 0 {
            steps += &step(0, "s", "i0", "i0", 1, FREE, 0);
            steps += &step(1, "cpy", "i0", "o0", 1, FREE, 0);
        } else {
            steps += &step(0, "r", "o0", "o0", 1, FREE, 0);
            if 0 <= next {
                steps += &step(1, "s", "o0", "o0", 1, FREE, 0);
            }
        }
        gpus += &gpu(u32::try_from(r).unwrap(), [1, 1, 0], &tb(0, (next, r - 1), 0, &steps));
    }
    algo("broadcast", u32::try_from(n).unwrap(), 1, &gpus)
}

/// 16 reductions to one place, then 17 to another, all in scratch.
fn long_reduction() -> String {
    let mut steps = step(0, "cpy", "i0", "s2", 1, FREE, 0)
        + &step(1, "cpy", "i0", "s3", 1, FREE, 0)
        + &step(2, "cpy", "i0", "s4", 1, FREE, 0);
    for k in 0..33 {
        steps += &step(3 + k, "re", "s2", if k < 16 { "s3" } else { "s4" }, 1, FREE, 0);
    }
    all_reduce_with(2, 8, "", &tb(1, (-1, -1), 0, &steps))
}

/// An instruction that waits for threadblock 128.
fn high_wait() -> String {
    let mut blocks = tb(1, (-1, -1), 0, &step(0, "cpy", "i0", "s4", 1, (128, 0), 0)) + &idle_blocks(2, 126, 1);
    blocks += &tb(128, (-1, -1), 0, &step(0, "cpy", "i0", "s5", 1, FREE, 1));
    all_reduce_with(2, 200, "", &blocks)
}

/// With LL: copy to scratch, send from there, and another threadblock overwrites it once the send has published.
fn late_read() -> String {
    let gpus: String = (0..2)
        .map(|r| {
            let steps = [
                step(0, "cpy", "i0", "s2", 2, FREE, 0),
                step(1, "s", "s2", "s2", 2, FREE, 1),
                step(2, "cpy", "i0", "o0", 2, FREE, 0),
                step(3, "r", "s0", "s0", 2, FREE, 0),
                step(4, "re", "s0", "o0", 2, FREE, 0),
            ];
            let peer = 1 - i32::try_from(r).unwrap();
            let second = tb(1, (-1, -1), 0, &step(0, "cpy", "i0", "s2", 2, (0, 1), 0));
            gpu(r, [2, 2, 4], &(tb(0, (peer, peer), 0, &steps.concat()) + &second))
        })
        .collect();
    algo("allreduce", 2, 2, &gpus).replace("\"Simple\"", "\"LL\"")
}

fn fused_receive() -> String {
    let gpus: String = (0..2)
        .map(|r| {
            let steps = step(0, "s", "i0", "i0", 2, FREE, 0) + &step(1, "rrc", "i0", "o0", 2, FREE, 0);
            let peer = 1 - i32::try_from(r).unwrap();
            gpu(r, [2, 2, 0], &tb(0, (peer, peer), 0, &steps))
        })
        .collect();
    algo("allreduce", 2, 2, &gpus)
}

fn edit(from: &str, to: &str) -> String {
    let good = all_reduce();
    assert!(good.contains(from), "{from}");
    good.replacen(from, to, 1)
}

/// (rule, runtimes at which it is the only one that decides, a file). For warnings and notes the runtimes are those that
/// the finding names; for files that cannot be read there are none.
fn table() -> Vec<(&'static str, &'static [&'static str], String)> {
    let nop = |dep| step(4, "nop", "i-1", "o-1", 0, dep, 0);
    let deep: String = "<x>".repeat(66) + &"</x>".repeat(66);
    let long = "x".repeat(256);
    let all: &[&str] = &["msccl", "azure", "rccl"];
    let both: &[&str] = &["azure", "rccl"];
    vec![
        ("B020", &[], edit("<algo", "<?xml version=\"1.0\"?>\n<algo")),
        ("B021", &[], edit("  <gpu", "\t<gpu")),
        ("B022", &[], edit("<algo", "<!DOCTYPE algo [<!ENTITY a \"b\">]>\n<algo")),
        ("B023", &[], edit("<algo", "<!--==== banner -->\n<algo")),
        ("B024", &[], edit("  <gpu", "words\n  <gpu")),
        ("B025", &[], edit(" coll=", "\ncoll=")),
        ("B026", &[], edit("coll=\"allreduce\"", "coll='allreduce'")),
        ("B027", &[], edit("name=\"test\"", &format!("name=\"{long}\""))),
        ("B028", &[], edit("proto=\"Simple\"", "proto=Simple")),
        ("B029", &[], edit("</algo>\n", "")),
        ("B030", &[], edit("hasdep=\"0\"/>", "hasdep=\"0\"><a/></step>")),
        ("B031", &[], edit("  <gpu", &format!("{deep}\n  <gpu"))),
        ("B032", &[], edit("</algo>\n", "</algo>\n<algo/>\n")),
        ("B033", &[], edit(" deps=\"-1\"", "")),
        ("B034", &[], edit("cnt=\"2\"", "cnt=\"2x\"")),
        ("B035", &[], edit("hasdep=\"0\"", "hasdep=\"2\"")),
        ("B036", &[], edit("\"Simple\"", "\"simple\"")),
        ("B037", &[], edit("type=\"cpy\"", "type=\"ra\"")),
        ("B038", &[], edit("srcbuf=\"i\"", "srcbuf=\"x\"")),
        ("B039", &[], edit("\"allreduce\"", "\"custom\"")),
        ("B040", &[], reduce_scatter("reducescatter").replace("nchunksperloop=\"2\"", "nchunksperloop=\"3\"")),
        (
            "B041",
            &[],
            edit("<gpu id=\"1\"", "<gpu id=\"0\"").replacen("send=\"0\" recv=\"0\"", "send=\"1\" recv=\"1\"", 1),
        ),
        ("B042", &[], edit("ngpus=\"2\"", "ngpus=\"3\"")),
        ("B043", &[], edit("<tb id=\"0\"", "<tb id=\"1\"")),
        ("B044", &[], edit("send=\"1\"", "send=\"0\"")),
        ("B045", &[], edit("send=\"1\"", "send=\"-1\"")),
        ("B046", &[], edit("srcoff=\"0\"", "srcoff=\"2\"")),
        ("B047", &[], edit("i_chunks=\"2\"", "i_chunks=\"1\"")),
        ("B048", &[], all_reduce_with(2, 8, &(nop((0, 0)) + &step(5, "cpy", "i0", "s7", 1, FREE, 0)), "")),
        ("B049", &[], edit("depid=\"-1\"", "depid=\"0\"")),
        ("B050", &[], all_reduce_with(2, 8, &step(4, "cpy", "i0", "s7", 0, FREE, 0), "")),
        ("B051", both, edit(" maxBytes=\"1048576\"", "")),
        ("B051", &["msccl"], edit("name=\"test\" ", "")),
        ("B052", both, reduce_scatter("reduce_scatter")),
        ("B052", &["msccl"], reduce_scatter("reducescatter")),
        ("B053", both, all_reduce_with(2, 8, &copies(4, 61), "")),
        ("B053", all, all_reduce_with(2, 8, &copies(4, 253), "")),
        ("B054", &["rccl"], all_reduce_with(2, 100, "", &idle_blocks(1, 64, 1))),
        ("B054", &["rccl", "msccl"], all_reduce_with(2, 300, "", &idle_blocks(1, 216, 1))),
        ("B055", all, all_gather(34)),
        (
            "B056",
            &["msccl"],
            all_reduce().replace("chan=\"0\"", "chan=\"32\"").replace("nchannels=\"1\"", "nchannels=\"33\""),
        ),
        ("B057", both, edit("nchannels=\"1\"", "nchannels=\"129\"")),
        ("B058", all, all_reduce().replace("chan=\"0\"", "chan=\"1\"")),
        ("B059", all, all_reduce_with(72, 72, "", "")),
        ("B060", all, all_reduce_with(2, 100, "", &idle_blocks(1, 63, 64))),
        ("B061", all, broadcast(1025)),
        ("B062", &["rccl"], fused_receive()),
        ("B063", &["msccl"], all_gather(3).replace("i_chunks=\"1\"", "i_chunks=\"3\"")),
        ("B064", &["msccl", "azure"], long_reduction()),
        ("B065", &["msccl", "azure"], high_wait()),
        ("B066", &["msccl", "azure"], all_reduce_with(2, 200, "", &idle_blocks(1, 80, 1))),
        ("B067", all, edit("minBytes=\"0\"", "minBytes=\"2000000\"")),
        ("B067", &["msccl"], edit("maxBytes=\"1048576\"", "maxBytes=\"0\"")),
        ("B068", both, edit("outofplace=\"1\"", "outofplace=\"0\"")),
        ("B068", &["msccl"], edit("inplace=\"0\"", "inplace=\"1\"")),
        ("B069", &["msccl"], all_to_all("2D")),
        ("B070", &["msccl"], edit("maxBytes=\"1048576\"", "maxBytes=\"1099511627776\"")),
        ("B071", &["rccl"], late_read()),
        ("B072", &["msccl"], edit("name=\"test\"", &format!("name=\"{}\"", "x".repeat(64)))),
        ("B073", &[], edit("<step s=\"0\"", "<step s=\"7\"")),
        ("B074", &[], all_reduce_with(2, 8, &(nop(FREE) + &step(5, "cpy", "i0", "s7", 1, FREE, 0)), "")),
        (
            "B075",
            &[],
            all_reduce_with(
                2,
                8,
                &(step(4, "cpy", "i0", "s7", 1, FREE, 1) + &nop((0, 4)).replace("s=\"4\"", "s=\"5\"")),
                "",
            ),
        ),
        ("B076", &[], {
            let mut more = String::new();
            for k in 0..7 {
                write!(more, " extra{k}=\"0\"").unwrap();
            }
            edit(" maxBytes=\"1048576\"", &format!(" maxBytes=\"1048576\"{more}"))
        }),
        ("B077", &[], all_to_all("test").replace("inplace=\"0\"", "inplace=\"1\"")),
        ("B078", all, idle_owner()),
    ]
}

fn effect(code: &str) -> Effect {
    RULES.iter().find(|rule| rule.entry.code == code).map(|rule| rule.effect).unwrap()
}

#[test]
fn the_files_that_the_table_edits_break_nothing() {
    for good in [all_reduce(), all_gather(3), all_to_all("test"), broadcast(4)] {
        let parsed = parse("good.xml", &good).unwrap();
        let (broken, services) = examine("good.xml", &parsed, &RuntimeProfile::LOADABLE);
        assert!(broken.is_empty(), "{broken:#?}");
        assert!(services.iter().all(|service| service.fate == Fate::Used), "{services:#?}");
        let judged = judge_file("good.xml", good.as_bytes(), &JudgeOptions::default());
        assert_eq!(judged.verdict, Verdict::Verified, "{:#?}", judged.findings);
    }
}

#[test]
fn each_rule_is_broken_by_a_file_that_breaks_no_other() {
    let table = table();
    let covered: BTreeSet<&str> = table.iter().map(|(code, ..)| *code).collect();
    let rules: BTreeSet<&str> = RULES.iter().map(|rule| rule.entry.code).collect();
    assert_eq!(covered, rules, "every rule has a line in the table");
    for (code, runtimes, text) in table {
        let effect = effect(code);
        let parsed = match parse("file.xml", &text) {
            Err(faults) => {
                assert_eq!(effect, Effect::Unreadable, "{code}: {faults:#?}");
                let codes: BTreeSet<_> = faults.iter().map(|fault| fault.code).collect();
                assert_eq!(codes, BTreeSet::from([code]), "{faults:#?}");
                let judged = judge_file("file.xml", text.as_bytes(), &JudgeOptions::default());
                assert_eq!(judged.verdict, Verdict::Unreadable);
                continue;
            }
            Ok(parsed) => parsed,
        };
        assert_ne!(effect, Effect::Unreadable, "{code} was read");
        let (broken, services) = examine("file.xml", &parsed, &RuntimeProfile::LOADABLE);
        if runtimes.is_empty() {
            let codes: Vec<_> = parsed.warnings.iter().map(|warning| warning.code).filter(|&c| c != "B015").collect();
            assert_eq!(codes, [code]);
            continue;
        }
        assert!(broken.iter().any(|rule| rule.effect == effect && rule.diagnostic.code == code), "{code}: {broken:#?}");
        if matches!(effect, Effect::Warning | Effect::Note) {
            let found = broken.iter().find(|rule| rule.diagnostic.code == code).unwrap();
            assert_eq!(found.runtimes, runtimes);
            continue;
        }
        for service in &services {
            let name = service.runtime.name;
            if runtimes.contains(&name) {
                assert_eq!(service.reasons, [code], "{code} at {name}");
            } else {
                assert_ne!(service.reasons, [code], "{code} at {name} too");
            }
            // With the runtime named, the file is refuted exactly where no call can use it.
            let options = JudgeOptions { runtime: Some(service.runtime), ..JudgeOptions::default() };
            let judged = judge_file("file.xml", text.as_bytes(), &options);
            let wanted = if service.fate == Fate::Used { Verdict::Verified } else { Verdict::Refuted };
            assert_eq!(judged.verdict, wanted, "{code} at {name}: {:#?}", judged.findings);
        }
    }
}

#[test]
fn a_file_that_goes_wrong_wherever_it_is_loaded_is_refuted() {
    let judge = |text: &str| judge_file("file.xml", text.as_bytes(), &JudgeOptions::default());
    // RCCL does not load it, the others wait for nothing.
    assert_eq!(judge(&high_wait()).verdict, Verdict::Refuted);
    assert_eq!(judge(&idle_owner()).verdict, Verdict::Refuted);
    // RCCL runs it.
    assert_eq!(judge(&long_reduction()).verdict, Verdict::Verified);
    // Nobody loads it, which is no refutation while no runtime is named.
    assert_eq!(judge(&all_gather(34)).verdict, Verdict::Verified);
}

/// Runtimes at which a file of the table, or one that goes further, breaks the rule; all for what their readers share.
fn broken_at() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let far = |channels: &str| all_reduce().replace("chan=\"0\"", "chan=\"200\"").replace("nchannels=\"1\"", channels);
    let further = [all_reduce_with(2, 2000, "", &idle_blocks(1, 1100, 1)), far("nchannels=\"201\"")];
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for text in table().into_iter().map(|(.., text)| text).chain(further) {
        let Ok(parsed) = parse("file.xml", &text) else { continue };
        for broken in examine("file.xml", &parsed, &RuntimeProfile::LOADABLE).0 {
            found.entry(broken.diagnostic.code).or_default().extend(broken.runtimes);
        }
    }
    for rule in RULES {
        let all = || RuntimeProfile::LOADABLE.iter().map(|runtime| runtime.name).collect();
        found.entry(rule.entry.code).or_insert_with(all);
    }
    found
}

/// Rows of the limits: what is limited, then msccl, azure and rccl.
fn limits() -> Vec<(&'static str, Vec<String>)> {
    let rows = RuntimeProfile::LOADABLE.map(|profile| {
        // Every field: a new one must not be forgotten here.
        let RuntimeProfile {
            name: _,
            version,
            instructions,
            threadblocks,
            threadblocks_per_channel,
            channels,
            count,
            waitable_threadblock,
            xml_nodes,
            xml_children,
            files,
            fused_reduces,
            fused_reduces_overrun,
            reserved_names,
            scratch_at_start,
            ll_sends_finish_reading,
            fused_receives,
            reduce_scatter_name,
            size_end,
            all_attributes_mandatory,
            exact_buffer_chunks,
            in_place_all_to_all,
            several_hosts,
            loadable: _,
        } = profile;
        let number = |limit: &Option<u32>| limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
        let yes = |holds: bool| if holds { "yes" } else { "no" }.to_owned();
        let end = match size_end {
            SizeEnd::Exclusive => "exclusive; 0 is never, missing is 128 MiB",
            SizeEnd::InclusiveZeroUnlimited => "inclusive; 0 is no limit",
        };
        vec![
            ("version described", (*version).to_owned()),
            ("instructions of a threadblock", number(instructions)),
            ("threadblocks of a rank", number(threadblocks)),
            ("threadblocks that send, or receive, on a channel of a rank", number(threadblocks_per_channel)),
            ("channels", number(channels)),
            ("chunks of an instruction (`cnt`)", number(count)),
            ("highest threadblock that can be waited for", number(waitable_threadblock)),
            ("XML elements that a rank loads", number(xml_nodes)),
            ("children of an XML element", number(xml_children)),
            ("files loaded", number(files)),
            ("`re` in a row that are joined", number(fused_reduces)),
            ("more of them overrun an array", yes(*fused_reduces_overrun)),
            ("fused receives (rcs, rrs, rrc, rrcs) run", yes(*fused_receives)),
            ("spelling of reduce-scatter", format!("`{reduce_scatter_name}`")),
            ("`maxBytes` is", end.to_owned()),
            ("`outofplace`, `minBytes`, `maxBytes` are mandatory", yes(*all_attributes_mandatory)),
            ("`i_chunks`, `o_chunks` must be 0 or exact", yes(*exact_buffer_chunks)),
            ("alltoall in place", yes(*in_place_all_to_all)),
            ("used where ranks are on several machines", yes(*several_hosts)),
            ("scratch for the largest message is allocated at start", yes(*scratch_at_start)),
            ("names mean something, and long ones are cut", yes(*reserved_names)),
            ("an LL send that published has read its source", yes(*ll_sends_finish_reading)),
        ]
    });
    let [first, second, third] = rows;
    first.into_iter().zip(second).zip(third).map(|(((what, a), (_, b)), (_, c))| (what, vec![a, b, c])).collect()
}

fn page() -> String {
    let mut out = String::from(
        "# Rules of MSCCL XML\n\n\
         What `rondo verify` checks of an MSCCL XML file besides what it computes (deadlock, races and results have V codes), for the three\n\
         runtimes that load such files. This page is made from the rules: `RONDO_UPDATE=1 cargo test --test msccl_rules`. `rondo explain B062`\n\
         prints an entry.\n\n\
         | effect | a file that breaks the rule | without `--runtime` | with it |\n| --- | --- | --- | --- |\n\
         | unreadable | is refused by the readers, read as something else, or promises nothing that could be checked | exit status 2 | 2 |\n\
         | goes wrong | is loaded, and then hangs, computes something else or leaves its memory | 1, unless another runtime uses it | 1 |\n\
         | not loaded | is refused, or every call that uses it fails | a warning | 1 |\n\
         | not selected | is loaded, and some or all calls that it is meant for do not use it | a warning | 1 if no call is left |\n\
         | warning | is probably not meant so | a warning | a warning |\n\
         | note | is fine; worth knowing | a note | a note |\n\n\
         ## The rules\n\n\
         A runtime has a • where a file can break the rule.\n\n\
         | code | rule | effect | msccl | azure | rccl | explanation |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let broken_at = broken_at();
    for rule in RULES {
        let CodeEntry { code, title, explanation } = rule.entry;
        let effect = match rule.effect {
            Effect::Unreadable => "unreadable",
            Effect::Wrong => "goes wrong",
            Effect::NotLoaded => "not loaded",
            Effect::NotSelected => "not selected",
            Effect::Warning => "warning",
            Effect::Note => "note",
        };
        let runtimes =
            RuntimeProfile::LOADABLE.map(|runtime| if broken_at[code].contains(runtime.name) { "•" } else { "" });
        // No row of a table may be split by what stands in it.
        let cell = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        let [a, b, c] = runtimes;
        writeln!(out, "| {code} | {} | {effect} | {a} | {b} | {c} | {} |", cell(title), cell(explanation)).unwrap();
    }
    out.push_str(
        "\n## The limits behind them\n\nData, a table per runtime and version (`ir/src/profile.rs`). Newer versions may differ.\n\n\
         | | msccl | azure | rccl |\n| --- | --- | --- | --- |\n",
    );
    for (what, cells) in limits() {
        writeln!(out, "| {what} | {} |", cells.join(" | ")).unwrap();
    }
    out
}

#[test]
fn the_page_says_what_the_rules_say() {
    let (file, page) = (common::path("docs/msccl-rules.md"), page());
    if std::env::var_os("RONDO_UPDATE").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    for (kept, page) in kept.lines().zip(page.lines()) {
        assert_eq!(kept, page, "RONDO_UPDATE=1 cargo test --test msccl_rules makes the page anew");
    }
    assert_eq!(kept, page);
}
