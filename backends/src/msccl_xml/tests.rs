//! Emitter and parser against each other, against files of other tools, and against broken ones.

use std::path::PathBuf;

use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, DataType, Place, ReduceOperator};
use rondo_ir::diagnostic::Severity;
use rondo_ir::index::RankId;
use rondo_ir::profile::{Protocol, RuntimeProfile};
use rondo_ir::program::{
    Connection, Operation, OperationKind, OperationRef, Program, RankProgram, SourceSpan, Threadblock,
};
use rondo_ir::units::Bytes;

use super::{EmitError, Options, Parsed, emit, parse};

fn collective(kind: CollectiveKind, ranks: u32, in_place: bool) -> Collective {
    Collective::new(CollectiveSpec {
        kind,
        ranks,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(4096),
        in_place,
        input_writable: false,
    })
    .unwrap()
}

fn end(peer: u32, channel: u32) -> Option<Connection> {
    Some(Connection { peer: RankId::from(peer), channel })
}

fn op(kind: OperationKind) -> Operation {
    Operation::new(kind)
}

fn moved(
    receive: Option<Connection>,
    local: Option<Place>,
    store: Option<Place>,
    send: Option<Connection>,
    count: u32,
) -> Operation {
    op(OperationKind::Move { receive, local, store, send, count })
}

fn block(id: u32, operations: Vec<Operation>) -> Threadblock {
    Threadblock { id, operations, span: SourceSpan::default() }
}

fn rank(scratch_slots: u32, threadblocks: Vec<Threadblock>) -> RankProgram {
    RankProgram { scratch_slots, threadblocks, span: SourceSpan::default() }
}

/// Two ranks exchange and add: the smallest program with a dependency chain.
fn exchange() -> (Collective, Program) {
    let ranks = (0..2)
        .map(|r| {
            let peer = 1 - r;
            let mut send = moved(None, Some(Place::output(0)), None, end(peer, 0), 2);
            send.publishes = true;
            let mut receive = moved(end(peer, 0), None, Some(Place::scratch(0)), None, 2);
            receive.publishes = true;
            let mut add =
                op(OperationKind::Reduce { sources: vec![Place::scratch(0)], dst: Place::output(0), count: 2 });
            add.waits_for = [1, 2].map(|threadblock| OperationRef { threadblock, operation: 0 }).to_vec();
            rank(2, vec![block(0, vec![add]), block(1, vec![send]), block(2, vec![receive])])
        })
        .collect();
    let program = Program { name: "exchange".to_owned(), chunks: 2, fifo_depth: 2, ranks };
    (collective(CollectiveKind::AllReduce, 2, true), program)
}

/// The program without the places of its file.
fn bare(program: &Program) -> Program {
    let mut program = program.clone();
    for rank in &mut program.ranks {
        rank.span = SourceSpan::default();
        for tb in &mut rank.threadblocks {
            tb.span = SourceSpan::default();
            tb.operations.iter_mut().for_each(|operation| operation.span = SourceSpan::default());
        }
    }
    program
}

fn read(text: &str) -> Parsed {
    parse("test.xml", text).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

fn corpus() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/msccl-xml");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "xml"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn the_file_looks_like_this() {
    let (collective, program) = exchange();
    let options =
        Options { max_bytes: Some(4096), ..Options::new(&RuntimeProfile::RCCL, Protocol::Simple, &collective) };
    let emitted = emit(&collective, &program, &options).unwrap();
    insta::assert_snapshot!(emitted.text, @r#"
    <algo name="all_reduce" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1" outofplace="0" minBytes="0" maxBytes="4096">
      <gpu id="0" i_chunks="2" o_chunks="2" s_chunks="2">
        <tb id="0" send="-1" recv="-1" chan="0">
          <step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="1" deps="0" hasdep="0"/>
          <step s="1" type="re" srcbuf="s" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="2" deps="0" hasdep="0"/>
        </tb>
        <tb id="1" send="1" recv="-1" chan="0">
          <step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
        </tb>
        <tb id="2" send="-1" recv="1" chan="0">
          <step s="0" type="r" srcbuf="s" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
        </tb>
      </gpu>
      <gpu id="1" i_chunks="2" o_chunks="2" s_chunks="2">
        <tb id="0" send="-1" recv="-1" chan="0">
          <step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="1" deps="0" hasdep="0"/>
          <step s="1" type="re" srcbuf="s" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="2" deps="0" hasdep="0"/>
        </tb>
        <tb id="1" send="0" recv="-1" chan="0">
          <step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
        </tb>
        <tb id="2" send="-1" recv="0" chan="0">
          <step s="0" type="r" srcbuf="s" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
        </tb>
      </gpu>
    </algo>
    "#);
    let parsed = read(&emitted.text);
    let expected = Program { name: "all_reduce".to_owned(), ..program };
    assert_eq!(bare(&parsed.program), expected);
    assert_eq!(parsed.warnings, []);
    let add = &parsed.program.ranks[1].threadblocks[0].operations[0];
    assert_eq!(add.span, SourceSpan { line: 17, column: 7 });
}

#[test]
fn sizes_and_names_follow_the_dialect() {
    let collective = collective(CollectiveKind::ReduceScatter, 2, false);
    let program = Program { name: String::new(), chunks: 3, fifo_depth: 8, ranks: vec![RankProgram::default(); 2] };
    let line = |profile, max_bytes| {
        let options = Options {
            min_bytes: 1024,
            max_bytes,
            name: "a \"b\"\t<c>".to_owned(),
            ..Options::new(profile, Protocol::Ll, &collective)
        };
        let text = emit(&collective, &program, &options).unwrap().text;
        text.lines().find(|line| line.starts_with("<algo")).unwrap().to_owned()
    };
    let rest = "name=\"a _b___c_\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"6\" ngpus=\"2\"";
    assert_eq!(
        line(&RuntimeProfile::MSCCL, Some(4096)),
        format!(
            "<algo {rest} coll=\"reduce_scatter\" inplace=\"0\" outofplace=\"1\" minBytes=\"1024\" maxBytes=\"4097\">"
        )
    );
    assert_eq!(
        line(&RuntimeProfile::AZURE, Some(4096)),
        format!(
            "<algo {rest} coll=\"reducescatter\" inplace=\"0\" outofplace=\"1\" minBytes=\"1024\" maxBytes=\"4096\">"
        )
    );
    assert!(line(&RuntimeProfile::RCCL, None).ends_with("maxBytes=\"0\">"));
    assert!(line(&RuntimeProfile::MSCCL, None).ends_with("maxBytes=\"9223372036854775807\">"));
    let text = emit(&collective, &program, &Options::new(&RuntimeProfile::UNLIMITED, Protocol::Simple, &collective))
        .unwrap()
        .text;
    assert!(text.starts_with("<!-- no runtime loads this file"));
    assert_eq!(read(&text).headers[0].collective.kind(), &CollectiveKind::ReduceScatter);
}

#[test]
fn what_cannot_be_written_is_refused_by_name() {
    let message = |collective: &Collective, program: &Program, options: &Options| {
        let error: EmitError = emit(collective, program, options).unwrap_err();
        assert!(!error.diagnostic().help.is_empty());
        error.to_string()
    };
    let (all_reduce, program) = exchange();
    let rccl = Options::new(&RuntimeProfile::RCCL, Protocol::Simple, &all_reduce);
    let gather = collective(CollectiveKind::Gather { root: 0 }, 2, false);
    assert_eq!(message(&gather, &program, &rccl), "MSCCL XML has no gather");
    let average = Collective::new(CollectiveSpec { operator: ReduceOperator::Avg, ..all_reduce.to_spec() }).unwrap();
    assert!(message(&average, &program, &rccl).contains("no runtime uses a file for avg"));
    let three = collective(CollectiveKind::AllReduce, 3, true);
    assert_eq!(message(&three, &program, &rccl), "the program has 2 ranks, the collective 3");
    let msccl = Options { profile: &RuntimeProfile::MSCCL, ..rccl.clone() };
    assert!(message(&all_reduce, &program, &msccl).contains("allocates scratch memory for the largest message"));
    let backwards = Options { min_bytes: 9, max_bytes: Some(8), ..rccl.clone() };
    assert_eq!(message(&all_reduce, &program, &backwards), "the smallest message has 9 bytes, the largest 8");

    let with = |kind: OperationKind| {
        let mut program = program.clone();
        program.ranks[1].threadblocks[0].operations = vec![op(kind)];
        message(&all_reduce, &program, &rccl)
    };
    let spot = "rank r1, threadblock 0, operation 0: ";
    let fused = OperationKind::Move {
        receive: end(0, 1),
        local: Some(Place::output(0)),
        store: Some(Place::output(0)),
        send: None,
        count: 1,
    };
    assert_eq!(with(fused), format!("{spot}rccl refuses to run `rrc`"));
    let copy = |place, count| OperationKind::Move {
        receive: None,
        local: Some(place),
        store: Some(Place::output(0)),
        send: None,
        count,
    };
    assert_eq!(with(copy(Place::scratch(1), 2)), format!("{spot}2 slots from s[1] on end at 3; the buffer has 2"));
    assert_eq!(with(copy(Place::scratch(0), 72)), format!("{spot}it moves 72 slots at once; rccl allows 71"));
    assert!(with(OperationKind::Signal { peer: RankId::new(0), counter: 0 }).starts_with(spot));
    let owner =
        OperationKind::Move { receive: None, local: Some(Place::output(0)), store: None, send: end(0, 0), count: 1 };
    assert!(with(owner).contains("two threadblocks send with r0 on channel 0"));

    let mut long = program.clone();
    long.ranks[0].threadblocks[1].operations = vec![program.ranks[0].threadblocks[1].operations[0].clone(); 65];
    assert_eq!(message(&all_reduce, &long, &rccl), "threadblock 1 of rank r0 has 65 instructions; rccl allows 64");
    let mut lost = program;
    lost.ranks[0].threadblocks[1].operations[0].publishes = false;
    assert!(message(&all_reduce, &lost, &rccl).contains("which never publishes"));
}

#[test]
fn roots_are_warned_about() {
    let broadcast = collective(CollectiveKind::Broadcast { root: 1 }, 2, true);
    let ranks = vec![
        rank(0, vec![block(0, vec![moved(end(1, 0), None, Some(Place::output(0)), None, 1)])]),
        rank(0, vec![block(0, vec![moved(None, Some(Place::output(0)), None, end(0, 0), 1)])]),
    ];
    let program = Program { name: "broadcast".to_owned(), chunks: 1, fifo_depth: 2, ranks };
    let options = Options::new(&RuntimeProfile::AZURE, Protocol::Simple, &broadcast);
    let emitted = emit(&broadcast, &program, &options).unwrap();
    assert_eq!(emitted.warnings[0].code, "B005");
    let parsed = read(&emitted.text);
    assert_eq!(parsed.headers[0].collective.kind(), broadcast.kind());
    assert_eq!(parsed.warnings[0].code, "B018");
    assert_eq!(bare(&parsed.program), program);
}

#[test]
fn every_file_of_the_corpus_is_read_and_written_again() {
    let files = corpus();
    assert_eq!(files.len(), 11);
    for (name, text) in files {
        let parsed = parse(&name, &text).unwrap_or_else(|faults| panic!("{name}: {faults:#?}"));
        // As many instructions as lines with one, less the `nop`s that became dependencies.
        let steps = text.matches("<step ").count();
        let nops = text.matches("type=\"nop\"").count();
        let multiple: usize =
            operations(&parsed.program).map(|operation| operation.waits_for.len().saturating_sub(1)).sum();
        assert_eq!((parsed.program.operation_count(), multiple), (steps - nops, nops), "{name}");
        assert!(parsed.warnings.iter().all(|warning| warning.severity < Severity::Error), "{name}");
        assert_eq!(!parsed.facts.absent.is_empty(), name.starts_with("astrasim"), "{name}");

        let header = &parsed.headers[0];
        let options = Options {
            max_bytes: Some(1 << 20),
            name: parsed.name.clone(),
            ..Options::new(&RuntimeProfile::UNLIMITED, parsed.protocol, &header.collective)
        };
        let emitted = emit(&header.collective, &parsed.program, &options).unwrap();
        let again = read(&emitted.text);
        assert_eq!(bare(&again.program), bare(&parsed.program), "{name}");
        assert_eq!(again.headers[0], *header, "{name}");
    }
}

fn operations(program: &Program) -> impl Iterator<Item = &Operation> {
    program.ranks.iter().flat_map(|rank| &rank.threadblocks).flat_map(|tb| &tb.operations)
}

#[test]
fn a_foreign_file_means_what_it_says() {
    let (_, text) = corpus().into_iter().find(|(name, _)| name.contains("1step")).unwrap();
    let parsed = read(&text);
    // By the file: four ranks, in place, LL, 8 chunks, 24 chunks of scratch; every rank sends to and receives from three.
    assert_eq!((parsed.protocol, parsed.channels, parsed.program.fifo_depth), (Protocol::Ll, 2, 8));
    assert_eq!((parsed.min_bytes, parsed.max_bytes), (Some(1024), Some(2048)));
    assert_eq!(parsed.program.chunks, 8);
    assert!(parsed.program.ranks.iter().all(|rank| rank.scratch_slots == 24));
    assert_eq!(parsed.headers.len(), 1);
    assert!(parsed.headers[0].collective.in_place());
}

/// A file around these steps of threadblock 0 of rank 0; threadblock 1 sends once and publishes.
fn around(steps: &str) -> String {
    let tb = "<tb id=\"1\" send=\"1\" recv=\"-1\" chan=\"0\">\n\
              <step s=\"0\" type=\"s\" srcbuf=\"o\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"1\"/>\n\
              </tb>";
    format!(
        "<algo name=\"x\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"8\" ngpus=\"2\" coll=\"allreduce\" inplace=\"1\" outofplace=\"0\" minBytes=\"0\" maxBytes=\"0\">\n\
         <gpu id=\"0\" i_chunks=\"8\" o_chunks=\"8\" s_chunks=\"8\">\n\
         <tb id=\"0\" send=\"1\" recv=\"1\" chan=\"0\">\n{steps}\n</tb>\n{tb}\n</gpu>\n\
         <gpu id=\"1\" i_chunks=\"8\" o_chunks=\"8\" s_chunks=\"8\"></gpu>\n</algo>\n"
    )
}

fn step(s: u32, kind: &str, src: &str, dst: &str, cnt: u32, dep: (i32, i32), hasdep: u32) -> String {
    let (sb, so) = src.split_at(1);
    let (db, d_o) = dst.split_at(1);
    format!(
        "<step s=\"{s}\" type=\"{kind}\" srcbuf=\"{sb}\" srcoff=\"{so}\" dstbuf=\"{db}\" dstoff=\"{d_o}\" cnt=\"{cnt}\" depid=\"{}\" deps=\"{}\" hasdep=\"{hasdep}\"/>\n",
        dep.0, dep.1
    )
}

const FREE: (i32, i32) = (-1, -1);

#[test]
fn instructions_read_their_local_places() {
    let place = Place::output;
    let (peer, s) = (end(1, 0), Place::scratch);
    for (kind, expected) in [
        ("s", (None, Some(s(1)), None, peer)),
        ("r", (peer, None, Some(place(2)), None)),
        ("cpy", (None, Some(s(1)), Some(place(2)), None)),
        ("rcs", (peer, None, Some(place(2)), peer)),
        ("rrs", (peer, Some(s(1)), None, peer)),
        ("rrc", (peer, Some(s(1)), Some(place(2)), None)),
        ("rrcs", (peer, Some(s(1)), Some(place(2)), peer)),
    ] {
        let parsed = read(&around(&step(0, kind, "s1", "o2", 3, FREE, 0)));
        let operation = bare(&parsed.program).ranks[0].threadblocks[0].operations[0].clone();
        let (receive, local, store, send) = expected;
        assert_eq!(operation, moved(receive, local, store, send, 3), "{kind}");
        assert_eq!(parsed.program.ranks[0].threadblocks[0].operations[0].span, SourceSpan { line: 4, column: 1 });
        let half = matches!(kind, "s" | "r" | "rcs" | "rrs");
        assert_eq!(parsed.warnings.iter().any(|warning| warning.code == "B016"), half, "{kind}");
    }
}

#[test]
fn positions_count_the_nops_that_carry_dependencies() {
    let steps = [
        step(0, "cpy", "s0", "o1", 1, FREE, 0),
        step(1, "nop", "i-1", "o-1", 0, (1, 0), 0),
        step(2, "nop", "i-1", "o-1", 0, (1, 7), 0),
        step(3, "cpy", "s0", "o2", 1, (5, 3), 1),
        step(4, "nop", "i-1", "o-1", 0, (1, 0), 0),
    ]
    .concat();
    let text = around(&steps)
        .replace("cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"1\"", "cnt=\"1\" depid=\"0\" deps=\"2\" hasdep=\"1\"");
    let parsed = read(&text);
    let rank = &parsed.program.ranks[0];
    let waits = |threadblock, operation| OperationRef { threadblock, operation };
    assert_eq!(rank.threadblocks[0].operations.len(), 2);
    // What does not exist stays beyond the end: instruction 7 of threadblock 1, threadblock 5.
    assert_eq!(rank.threadblocks[0].operations[1].waits_for, [waits(1, 0), waits(1, 7), waits(5, 3)]);
    // Position 2 is a `nop` of the second operation.
    assert_eq!(rank.threadblocks[1].operations[0].waits_for, [waits(0, 1)]);
    assert!(parsed.warnings.iter().any(|warning| warning.message.contains("at the end of a threadblock are dropped")));
}

#[test]
fn reductions_that_the_runtime_joins_are_read_as_it_runs_them() {
    let sources = |steps: &str| -> Vec<(usize, u32)> {
        read(&around(steps)).program.ranks[0].threadblocks[0]
            .operations
            .iter()
            .map(|operation| match &operation.kind {
                OperationKind::Reduce { sources, count, .. } => (sources.len(), *count),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let re = |s, src: &str, cnt, hasdep| step(s, "re", src, "s0", cnt, FREE, hasdep);
    // Same count, no overlap: joined or not makes no difference.
    assert_eq!(sources(&[re(0, "s2", 1, 0), re(1, "s3", 1, 0)].concat()), [(1, 1), (1, 1)]);
    // The last count holds for all.
    assert_eq!(sources(&[re(0, "s2", 1, 0), re(1, "s4", 1, 0), re(2, "s6", 2, 0)].concat()), [(3, 2)]);
    // A later source that the first one would overwrite.
    assert_eq!(sources(&[re(0, "s2", 2, 0), re(1, "s1", 2, 0)].concat()), [(2, 2)]);
    // Publishing keeps them apart, and so does another buffer.
    assert_eq!(sources(&[re(0, "s2", 1, 1), re(1, "s4", 2, 0)].concat()), [(1, 1), (1, 2)]);
    assert_eq!(sources(&[re(0, "s2", 1, 0), re(1, "o4", 2, 0)].concat()), [(1, 1), (1, 2)]);
}

#[test]
fn faults_are_named_with_their_place() {
    let good = around(&step(0, "cpy", "s0", "o1", 1, FREE, 0));
    for (from, to, code, message, marked) in [
        ("<algo", "<?xml version=\"1.0\"?>\n<algo", "B020", "an XML prolog", "<?"),
        ("<algo", "<!DOCTYPE algo>\n<algo", "B022", "a DOCTYPE", "<!"),
        ("<algo", "<!--====-->\n<algo", "B023", "first word holds `=`", "<!--===="),
        ("<algo", "<!-- open\n<algo", "B029", "never closed", "<!--"),
        ("<algo", "\t<algo", "B021", "a tab", "\t"),
        ("<algo", "text<algo", "B024", "text between elements", "t"),
        ("<algo", "<hwloc><a/></hwloc><algo", "B032", "the first element is `<hwloc>`", "<hwloc>"),
        (" coll=", "\ncoll=", "B025", "a line break or tab inside a tag", "\n"),
        ("coll=\"allreduce\"", "coll='allreduce'", "B026", "single quotes", "coll='"),
        ("coll=\"allreduce\"", "coll=\"everything\"", "B039", "collective `everything` is not supported", "everything"),
        ("proto=\"Simple\"", "proto=\"simple\"", "B036", "`proto` is `simple`", "simple"),
        ("ngpus=\"2\"", "ngpus=\"2x\"", "B034", "`ngpus` is `2x`, which is no whole number", "2x"),
        ("nchunksperloop=\"8\"", "nchunksperloop=\"99999999\"", "B035", "it must be 1 … 16777216", "99999999"),
        ("<gpu id=\"1\"", "<gpu id=\"0\"", "B041", "two `<gpu>` with id 0, at lines 2 and 11", "<algo"),
        (
            "<tb id=\"1\"",
            "<tb id=\"0\"",
            "B043",
            "rank 0 has two threadblocks with id 0",
            "<tb id=\"0\" send=\"1\" recv=\"-1\"",
        ),
        ("<tb id=\"1\"", "<tb id=\"3\"", "B043", "rank 0 has no threadblock 1, but one with id 3", "<tb id=\"3\""),
        ("send=\"1\" recv=\"-1\"", "send=\"0\" recv=\"-1\"", "B044", "the rank itself", "0"),
        (
            "send=\"1\" recv=\"-1\"",
            "send=\"-1\" recv=\"-1\"",
            "B045",
            "`s` sends, but `send` of its threadblock is -1",
            "s",
        ),
        ("type=\"cpy\"", "type=\"ra\"", "B037", "`ra` is no instruction", "ra"),
        ("srcbuf=\"s\"", "srcbuf=\"x\"", "B038", "`x` is no buffer", "x"),
        ("dstoff=\"1\"", "dstoff=\"8\"", "B046", "offset 8 is past the end of buffer `o`, which has 8 chunks", "8"),
        ("dstoff=\"1\"", "dstoff=\"-1\"", "B046", "offset -1 is no place", "-1"),
        (" deps=\"-1\" hasdep=\"0\"", " hasdep=\"0\"", "B033", "`<step>` has no attribute `deps`", "<step"),
        ("hasdep=\"0\"", "hasdep=\"2\"", "B035", "`hasdep` is 2; it must be 0 … 1", "2"),
        ("</gpu>\n</algo>", "</gpu>\n</gpu>", "B029", "`</gpu>` does not close `<algo>`", "</gpu>"),
        ("</gpu>\n</algo>\n", "</gpu>\n", "B029", "`<algo>` is never closed", "<algo"),
        ("</algo>\n", "</algo>\n<x/>", "B032", "something stands after", "<x/>"),
    ] {
        assert!(good.contains(from), "{from}");
        let text = good.replacen(from, to, 1);
        let faults = parse("plan.xml", &text).expect_err(message);
        assert_eq!(faults[0].code, code, "{message}: {faults:#?}");
        assert!(faults[0].message.contains(message), "{message}: {}", faults[0].message);
        let label = &faults[0].labels[0];
        assert_eq!(label.file, "plan.xml");
        assert!(text[label.start..label.end].starts_with(marked), "{message}: {:?}", &text[label.start..label.end]);
    }
    let child = good.replacen("hasdep=\"0\"/>", "hasdep=\"0\"><a/></step>", 1);
    assert!(parse("plan.xml", &child).unwrap_err()[0].message.contains("no children"));
    let chain = around(&[step(0, "nop", "i-1", "o-1", 0, (1, 0), 0), step(1, "cpy", "s0", "o1", 1, FREE, 0)].concat());
    assert!(parse("plan.xml", &chain).unwrap_err()[0].message.contains("carry dependencies"));
    assert_eq!(parse("plan.xml", "").unwrap_err()[0].code, "B032");
    assert_eq!(parse("plan.xml", "<!-- nothing -->").unwrap_err()[0].message, "the file holds no <algo> element");
}

#[test]
fn all_faults_of_a_file_are_reported_at_once() {
    let steps: String = (0..80).map(|s| step(s, "xyz", "s0", "o1", 1, FREE, 0)).collect();
    let faults = parse("plan.xml", &around(&steps)).unwrap_err();
    assert_eq!(faults.len(), 50);
    let steps = [step(0, "xyz", "s0", "o1", 1, FREE, 0), step(1, "cpy", "q0", "o1", 1, FREE, 0)].concat();
    assert_eq!(parse("plan.xml", &around(&steps)).unwrap_err().len(), 2);
}

#[test]
fn what_the_runtimes_ignore_is_ignored_and_mentioned() {
    let text = around(&step(0, "cpy", "s0", "o1", 1, FREE, 0))
        .replace("<gpu id=\"1\" ", "<gpu  id=\"1\" colour=\"red\" ")
        .replace("<tb id=\"1\"", "<copy i_off=\"0\" o_off=\"0\"/>\n<tb id=\"1\"");
    let parsed = read(&text);
    let messages: Vec<_> = parsed.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`<copy>` inside `<gpu>` is ignored by the runtimes",
            "attribute `colour` of `<gpu>` is ignored by the runtimes"
        ]
    );
    for (text, expected) in [("0x1f", Some(31)), ("017", Some(15)), ("-5", Some(-5)), ("+7", Some(7)), ("08", None)] {
        let xml = around(&step(0, "cpy", "s0", "o1", 1, FREE, 0)).replace("chan=\"0\"", &format!("chan=\"{text}\""));
        let parsed = parse("x", &xml).ok();
        assert_eq!(parsed.is_some(), expected.is_some_and(|n| 0 <= n), "{text}");
    }
}

#[test]
fn no_text_makes_it_panic() {
    let (_, program) = exchange();
    let collective = collective(CollectiveKind::AllReduce, 2, true);
    let options = Options::new(&RuntimeProfile::RCCL, Protocol::Simple, &collective);
    let good = emit(&collective, &program, &options).unwrap().text;
    for length in 0..good.len() {
        assert_eq!(parse("x", &good[..length]).is_ok(), length == good.len() - 1, "cut off at {length}");
    }
    for at in 0..good.len() {
        for with in ["", "\"", "<", ">", "/", "=", " ", "\n", "-", "9", "é", "\0", "99999999999999999999"] {
            let text = format!("{}{with}{}", &good[..at], &good[at + 1..]);
            match parse("x", &text) {
                Ok(parsed) => drop(parsed.warnings),
                Err(faults) => {
                    assert!(!faults.is_empty());
                    for label in faults.iter().flat_map(|fault| &fault.labels) {
                        assert!(text.get(label.start..label.end).is_some(), "a label between characters");
                    }
                }
            }
        }
    }
}
