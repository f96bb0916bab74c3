//! From jobs to problems: placement, chosen ranks, collectives, and what only the topology can refuse.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use rondo_compiler::fabric::{Fabric, Router, Shape};
use rondo_compiler::front::job::{Job, SizeRequest, build_problem, build_problem_for, parse_job};
use rondo_ir::collective::{CollectiveKind, Expected};
use rondo_ir::index::NodeId;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Route;
use rondo_ir::topology::{Configuration, Node, TopologyBuilder};
use rondo_ir::units::{Bytes, Delay, Rate};

/// These tests never route.
#[derive(Debug)]
struct NoRouter;

impl Router for NoRouter {
    fn route(&self, _: NodeId, _: NodeId) -> Option<Route> {
        None
    }
}

fn fabric(builder: TopologyBuilder) -> Fabric {
    let topology = Arc::new(builder.finish().expect("well formed"));
    let circuits = vec![Configuration::default(); topology.devices().len()];
    Fabric { circuits, ..Fabric::new(topology, Shape::General, Arc::new(NoRouter)) }
}

fn rate() -> Rate {
    Rate::new(1_000_000_000).expect("positive")
}

/// `n0` to `n3` on a switch `sw`.
fn star() -> Fabric {
    let mut builder = TopologyBuilder::new("star");
    let nodes: Vec<_> = (0..4).map(|index| builder.node(Node::compute(format!("n{index}")))).collect();
    let switch = builder.node(Node::switch("sw"));
    for node in nodes {
        builder.cable(node, switch, rate(), Delay::ZERO);
    }
    fabric(builder)
}

/// `n0 -> n1 -> n2`, one way, and `n3` alone.
fn line() -> Fabric {
    let mut builder = TopologyBuilder::new("line");
    let nodes: Vec<_> = (0..4).map(|index| builder.node(Node::compute(format!("n{index}")))).collect();
    builder.link(nodes[0], nodes[1], rate(), Delay::ZERO);
    builder.link(nodes[1], nodes[2], rate(), Delay::ZERO);
    fabric(builder)
}

fn job(rest: &str) -> Job {
    let text = format!("{rest}\n[topology]\nkind = \"switch\"\nnodes = 4\nbandwidth = \"1 GB/s\"\n");
    parse_job("job.toml", &text).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn problem(fabric: &Fabric, collective: &str) -> Problem {
    build_problem(&job(&format!("[collective]\n{collective}")), fabric).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// What is found wrong: code and message.
fn refused(fabric: &Fabric, collective: &str) -> Vec<String> {
    let errors = build_problem(&job(&format!("[collective]\n{collective}")), fabric).expect_err(collective);
    for error in &errors {
        assert!(!error.help.is_empty(), "{error:?}");
        assert!(!error.labels.is_empty(), "{error:?}");
        let known = rondo_compiler::codes();
        assert!(known.iter().any(|entry| entry.code == error.code), "{error:?}");
    }
    errors.into_iter().map(|error| format!("{} {}", error.code, error.message)).collect()
}

fn placed(problem: &Problem) -> Vec<&str> {
    problem.placement().iter().map(|&node| problem.topology().node(node).name.as_str()).collect()
}

#[test]
fn ranks_are_the_compute_nodes_or_a_chosen_few_in_their_order() {
    let all = "kind = \"all_reduce\"\nbuffer_size = \"1 MiB\"\n";
    assert_eq!(placed(&problem(&star(), all)), ["n0", "n1", "n2", "n3"]);
    assert_eq!(placed(&problem(&star(), &format!("{all}ranks = 2"))), ["n0", "n1"]);
    assert_eq!(placed(&problem(&star(), &format!("{all}ranks = [3, \"n1\", 0]"))), ["n3", "n1", "n0"]);
    // With a placement, numbers count its entries, and names are those of its nodes.
    let chosen = format!("{all}ranks = [1, \"n3\"]\n[placement]\nnodes = [\"n3\", \"n2\", 0]");
    assert_eq!(placed(&problem(&star(), &chosen)), ["n2", "n3"]);
    let one = problem(&star(), &format!("{all}ranks = 1"));
    assert_eq!(one.group(0.into()).collective().ranks(), 1);
}

#[test]
fn unknown_repeated_and_impossible_nodes_are_all_reported() {
    let all = "kind = \"all_reduce\"\nbuffer_size = \"1 MiB\"\n";
    assert_eq!(
        refused(&star(), &format!("{all}ranks = [\"n4\", 4, \"n0\", \"sw\", 0]")),
        [
            "C017 no node is named `n4`",
            "C005 there is no node 4; the topology has 4 nodes",
            "C018 `sw` is a switch",
            "C016 node `n0` is listed twice",
        ]
    );
    assert_eq!(refused(&star(), &format!("{all}ranks = 5")), ["C013 5 ranks are wanted on 4 nodes"]);
    assert_eq!(
        refused(&star(), &format!("{all}ranks = [\"n1\"]\n[placement]\nnodes = [\"n3\", \"n2\"]")),
        ["C019 node `n1` takes no part"]
    );
}

#[test]
fn roots_are_ranks_by_number_or_node() {
    let root = |collective: &str| problem(&star(), collective).group(0.into()).collective().kind().root();
    let broadcast = "kind = \"broadcast\"\nbuffer_size = \"8 B\"\n";
    assert_eq!(root(broadcast), Some(0));
    assert_eq!(root(&format!("{broadcast}root = 2")), Some(2));
    assert_eq!(root(&format!("{broadcast}root = \"n1\"\nranks = [3, 1]")), Some(1));
    assert_eq!(refused(&star(), &format!("{broadcast}root = 4")), ["C002 root 4 does not exist; there are 4 ranks"]);
    assert_eq!(
        refused(&star(), &format!("{broadcast}root = \"n0\"\nranks = [3, 1]")),
        ["C019 node `n0` takes no part"]
    );
}

#[test]
fn blocks_make_buffers_and_ranges_keep_their_ends() {
    let gather = |size: &str| job(&format!("[collective]\nkind = \"all_gather\"\nblock_size = \"{size}\""));
    assert_eq!(gather("1 KiB").sizes(4), SizeRequest::One(Bytes(4096)));
    let range = gather("4 B..1 KiB");
    assert_eq!(range.sizes(4), SizeRequest::Range { low: Bytes(16), high: Bytes(4096) });
    let smallest = build_problem(&range, &star()).expect("fits");
    assert_eq!(smallest.group(0.into()).collective().buffer_size(), Bytes(16));
    let larger = build_problem_for(&range, &star(), Bytes(64)).expect("fits");
    assert_eq!(larger.group(0.into()).collective().buffer_size(), Bytes(64));
    let huge = gather("8192 PiB");
    assert_eq!(build_problem(&huge, &star()).expect_err("too large")[0].code, "C014");
}

#[test]
fn a_size_matrix_has_one_row_and_column_a_rank() {
    let given = problem(
        &star(),
        "kind = \"all_to_all\"\nranks = 2\ndtype = \"float16\"\nmatrix = [[\"0 B\", \"6 B\"], [\"2 B\", \"4 B\"]]",
    );
    let collective = given.group(0.into()).collective();
    assert_eq!(*collective.kind(), CollectiveKind::AllToAll { matrix: Some(vec![vec![0, 3], vec![1, 2]]) });
    // Rank 1 receives 6 + 4 bytes.
    assert_eq!(collective.buffer_size(), Bytes(10));
    assert_eq!(
        refused(&star(), "kind = \"all_to_all\"\nranks = 2\nmatrix = [[\"0 B\", \"4 B\"], [\"4 B\"], [\"4 B\"]]"),
        [
            "C004 `collective.matrix` has 3 entries for 2 ranks",
            "C004 `collective.matrix[1]` has 1 entries for 2 ranks",
            "C004 `collective.matrix[2]` has 1 entries for 2 ranks",
        ]
    );
}

#[test]
fn targets_are_ranks_and_nobody_receives_twice() {
    let send = "kind = \"send_receive\"\nbuffer_size = \"4 B\"\n";
    let given = problem(&star(), &format!("{send}targets = [1, \"n3\", \"none\", 0]"));
    let kind = given.group(0.into()).collective().kind().clone();
    assert_eq!(kind, CollectiveKind::SendReceive { targets: vec![Some(1), Some(3), None, Some(0)] });
    assert_eq!(
        refused(&star(), &format!("{send}targets = [1, 1, 9]")),
        [
            "C004 `collective.targets` has 3 entries for 4 ranks",
            "C006 rank 1 would receive from two ranks",
            "C005 target 9 does not exist; there are 4 ranks",
        ]
    );
}

#[test]
fn custom_conditions_speak_of_slots_that_exist() {
    let custom = "kind = \"custom\"\nbuffer_size = \"8 B\"\nranks = 2\n";
    let given = problem(&star(), &format!("{custom}input_slots = 1\noutput = [[\"sum[0]\", \"free\"], [\"r0[0]\"]]"));
    let layout = given.layout(0.into(), 1).expect("one chunk");
    assert_eq!(layout.slots(0, rondo_ir::collective::Buffer::Output), 2);
    let CollectiveKind::Custom(conditions) = given.group(0.into()).collective().kind() else { panic!("custom") };
    let all = Expected::SumOverAll { slot: 0 }.to_multiset(2);
    assert_eq!(conditions.output[0], [Some(all), None]);
    assert_eq!(
        refused(&star(), &format!("{custom}input_slots = [1, 0]\noutput = [[\"r1[0]\", \"r7[0]\"], [\"sum[0]\"]]")),
        [
            "C007 input slot 0 of rank 1 does not exist",
            "C007 input slot 0 of rank 7 does not exist",
            "C007 input slot 0 of rank 1 does not exist",
        ]
    );
}

#[test]
fn a_missing_way_is_refused_only_where_it_is_needed() {
    // Down the line everything arrives; back nothing does; n3 is alone.
    let down = "kind = \"broadcast\"\nbuffer_size = \"4 B\"\nranks = 3";
    assert_eq!(placed(&problem(&line(), down)), ["n0", "n1", "n2"]);
    assert_eq!(placed(&problem(&line(), "kind = \"gather\"\nbuffer_size = \"4 B\"\nranks = 3\nroot = 2")).len(), 3);
    assert_eq!(
        refused(&line(), "kind = \"all_reduce\"\nbuffer_size = \"4 B\"\nranks = 3"),
        ["C011 no path leads from n2 to n0, but all_reduce needs one"]
    );
    // n1 relays only while it hosts a rank.
    assert_eq!(
        refused(&line(), "kind = \"broadcast\"\nbuffer_size = \"4 B\"\nranks = [0, 2]"),
        ["C011 no path leads from n0 to n2, but broadcast needs one"]
    );
    let errors = build_problem(&job("[collective]\nkind = \"broadcast\"\nbuffer_size = \"4 B\""), &line())
        .expect_err("n3 is alone");
    assert_eq!(errors[0].message, "no path leads from n0 to n3, but broadcast needs one");
    assert_eq!(errors[0].notes[0], "nothing that starts at ranks: n0, n1, n2 can leave them; cut off are ranks: n3");
}

#[test]
fn defaults_of_the_cost_model_are_listed_with_their_source() {
    let job = job("[collective]\nkind = \"all_reduce\"\nbuffer_size = \"4 B\"\n[cost]\nstartup = \"1 us\"");
    let lines: Vec<String> = job.cost_defaults().map(ToString::to_string).collect();
    let table = "\"On Topology's Role in ML Training Performance\", Table 1";
    assert_eq!(
        lines,
        [
            format!("topology.latency = \"1 us\" (default: {table})"),
            format!("cost.reduce_cost = \"1 ps/B\" (default: {table})"),
            "cost.copy_cost = \"0 s/B\" (default: local copies are taken as free)".to_owned(),
            "cost.synchronisation = \"0 s\" (default: \"Shortcut\", which counts it as part of the delay)".to_owned(),
            "cost.stragglers = \"0 s\" (default: none assumed)".to_owned(),
        ]
    );
    assert!(job.defaults_used().len() > lines.len());
}
