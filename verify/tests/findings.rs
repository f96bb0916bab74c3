//! One fault at a time: exactly that code is found, and the message names the spot.
#![allow(clippy::unwrap_used)] // A test that cannot build its world fails.

mod common;

use std::sync::Arc;

use common::{Builder, assert_verified, codes, doubling, link_between, mesh, problem, rank, rate, ring, spec, verify};
use num_rational::Ratio;
use rondo_ir::collective::{Collective, CollectiveKind, Contribution, CustomCollective, Place, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::index::{DeviceId, FlowId, GeneratorId, GroupId, NodeId, PortId, RouteId, TreeId};
use rondo_ir::problem::{Problem, ProblemSpec};
use rondo_ir::schedule::{
    Dependencies, FlowOp, FlowSet, Generator, Path, PathKind, Route, RoutePart, Schedule, Scratch, Step, Tree,
};
use rondo_ir::topology::{
    Circuit, Configuration, Device, Hop, LegalConfigurations, Node, Port, PortDirection, TopologyBuilder,
};
use rondo_ir::units::Delay;
use rondo_verify::{Answer, Options, SmtMode, verify_schedule};

/// The finding's message; exactly this code must be found.
fn refuted(problem: &Arc<Problem>, schedule: &Schedule, code: &str) -> String {
    let outcome = verify(problem, schedule);
    assert_eq!(codes(&outcome), [code], "{:#?}", outcome.findings);
    assert_eq!(outcome.answer(), Answer::Refuted);
    assert!(outcome.verified.is_none());
    assert!(rondo_verify::codes().iter().any(|entry| entry.code == code), "{code} is not registered");
    let finding = &outcome.findings[0];
    let mut text = finding.message.clone();
    assert!(!text.ends_with('.') && text.chars().next().is_some_and(|c| !c.is_uppercase()), "{text}");
    for note in finding.notes.iter().chain(&finding.help) {
        text.push('\n');
        text.push_str(note);
    }
    text
}

fn rows(schedule: &mut Schedule, step: usize) -> &mut Vec<rondo_ir::schedule::Flow> {
    match &mut schedule.steps[step].flows {
        FlowSet::Rows(rows) => rows,
        FlowSet::Orbits { .. } => panic!("rows"),
    }
}

fn ring4() -> (Arc<Problem>, Schedule) {
    let problem = problem(spec(CollectiveKind::AllReduce, 4, 16, true));
    let schedule = ring(&problem);
    assert_verified(&problem, &schedule);
    (problem, schedule)
}

#[test]
fn good_schedules_are_verified() {
    for n in 1..9 {
        for elements in [0, 1, 7, 64] {
            let problem = problem(spec(CollectiveKind::AllReduce, n, elements, true));
            assert_verified(&problem, &ring(&problem));
        }
    }
    for n in [1, 2, 4, 8, 16] {
        let problem = problem(spec(CollectiveKind::AllReduce, n, 10, true));
        assert_verified(&problem, &doubling(&problem, 3));
    }
}

#[test]
fn codes_are_unique_and_explained() {
    let mut all: Vec<_> = rondo_verify::codes().iter().map(|entry| entry.code).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    for entry in rondo_verify::codes() {
        assert!(!entry.title.is_empty() && entry.explanation.len() > 40, "{}", entry.code);
    }
}

#[test]
fn tables_of_the_wrong_length() {
    let (problem, mut schedule) = ring4();
    schedule.chunks.push(1);
    assert!(refuted(&problem, &schedule, "V001").contains("2 chunk counts, but the problem has 1 group"));
    let (problem, mut schedule) = ring4();
    schedule.chunks[0] = 0;
    refuted(&problem, &schedule, "V001");
    let (problem, mut schedule) = ring4();
    schedule.scratch[0].like = vec![Vec::new(); 3];
    refuted(&problem, &schedule, "V001");
}

#[test]
fn flows_that_name_what_is_not_there() {
    let (problem, good) = ring4();
    let with = |change: &dyn Fn(&mut rondo_ir::schedule::Flow)| {
        let mut schedule = good.clone();
        change(&mut rows(&mut schedule, 0)[2]);
        schedule
    };
    assert!(refuted(&problem, &with(&|f| f.group = GroupId::new(7)), "V002").contains("f2 names group g7"));
    assert!(refuted(&problem, &with(&|f| f.src = rank(9)), "V002").contains("rank r9"));
    assert!(refuted(&problem, &with(&|f| f.count = 0), "V003").contains("0 slots"));
    assert!(refuted(&problem, &with(&|f| f.count = u32::MAX), "V003").contains("f2 names r2.o"));
    assert!(refuted(&problem, &with(&|f| f.dst_place = Place::output(4)), "V003").contains("has 4 slots"));
    assert!(refuted(&problem, &with(&|f| f.dst_place = Place::scratch(0)), "V003").contains("has 0 slots"));
    assert!(refuted(&problem, &with(&|f| f.path = Path::LOCAL), "V005").contains("from r2 to r3"));
    assert!(refuted(&problem, &with(&|f| f.dst = f.src), "V005").contains("stays at r2"));
    refuted(&problem, &with(&|f| f.path = Path::route(RouteId::new(99))), "V006");
    refuted(&problem, &with(&|f| f.path = Path::new(PathKind::Multicast(TreeId::new(0)))), "V006");
    refuted(&problem, &with(&|f| f.path = Path::new(PathKind::Aggregate(TreeId::new(0)))), "V006");
}

#[test]
fn slots_of_unequal_size() {
    // 6 elements in 4 slots: 2, 2, 1, 1.
    let problem = problem(spec(CollectiveKind::AllReduce, 4, 6, true));
    let mut schedule = ring(&problem);
    let flow = &mut rows(&mut schedule, 0)[1];
    flow.dst_place = Place::output(2);
    assert!(refuted(&problem, &schedule, "V004").contains("r1.o[1] (2 elements) to r2.o[2] (1 elements)"));
}

fn reroute(schedule: &mut Schedule, route: Route) {
    let route = schedule.paths.intern(route);
    rows(schedule, 0)[0].path = Path::route(route);
}

#[test]
fn bad_routes() {
    let (problem, good) = ring4();
    let topology = problem.topology();
    let hop = |a: &str, b: &str| Hop::Link(link_between(topology, a, b));
    let with = |route: Route| {
        let mut schedule = good.clone();
        reroute(&mut schedule, route);
        schedule
    };
    let part = |numerator, denominator, hops| RoutePart { weight: Ratio::new_raw(numerator, denominator), hops };
    let direct = || vec![hop("n0", "n1")];
    let over = || vec![hop("n0", "sw"), hop("sw", "n1")];
    // A way round over the switch, and a split one, are right.
    assert_verified(&problem, &with(Route::single(over())));
    assert_verified(&problem, &with(Route { parts: vec![part(1, 3, direct()), part(2, 3, over())] }));
    for weights in [(1, 3, 1, 3), (0, 1, 1, 1), (1, 0, 1, 1), (u64::MAX, u64::MAX - 1, 1, 2)] {
        let (a, b, c, d) = weights;
        refuted(&problem, &with(Route { parts: vec![part(a, b, direct()), part(c, d, over())] }), "V007");
    }
    refuted(&problem, &with(Route { parts: vec![part(1, 2, direct())] }), "V007");
    refuted(&problem, &with(Route { parts: Vec::new() }), "V007");
    refuted(&problem, &with(Route::single(Vec::new())), "V008");
    refuted(&problem, &with(Route::single(vec![hop("n0", "sw"), hop("n2", "n1")])), "V008");
    refuted(&problem, &with(Route::single(vec![Hop::Link(rondo_ir::index::LinkId::new(9999))])), "V008");
    assert!(
        refuted(&problem, &with(Route::single(vec![hop("n0", "n2")])), "V008")
            .contains("from n0 to n1 over a route from n0 to n2")
    );
    assert!(
        refuted(&problem, &with(Route::single(vec![hop("n0", "n2"), hop("n2", "n1")])), "V010")
            .contains("passes through n2")
    );
    let loops = vec![hop("n0", "sw"), hop("sw", "n1"), hop("n1", "n0"), hop("n0", "sw"), hop("sw", "n1")];
    refuted(&problem, &with(Route::single(loops)), "V011");
}

#[test]
fn a_link_that_is_down() {
    let (problem, schedule) = ring4();
    let mut builder = problem.topology().to_builder();
    let link = link_between(problem.topology(), "n2", "n3");
    builder.links[link.index()].up = false;
    let spec = ProblemSpec { topology: Arc::new(builder.finish().unwrap()), ..problem.to_spec() };
    let failed = Arc::new(Problem::new(spec).unwrap());
    assert!(refuted(&failed, &schedule, "V009").contains("link n2 -> n3, which is down"));
}

/// Four ranks on one optical switch, joined in pairs 0–1 and 2–3.
fn optical() -> (Arc<Problem>, Schedule) {
    let mut builder = TopologyBuilder::new("optical");
    let nodes: Vec<_> = (0..4).map(|r| builder.node(Node::compute(format!("n{r}")))).collect();
    let port = |&node: &NodeId| Port {
        node,
        direction: PortDirection::Duplex,
        capacity: rate(1),
        latency: Delay::from_nanoseconds(10),
    };
    builder.device(Device {
        name: "ocs".into(),
        ports: nodes.iter().map(port).collect(),
        reconfiguration_delay: Delay::from_nanoseconds(500),
        legal: LegalConfigurations::AnyMatching,
    });
    let topology = Arc::new(builder.finish().unwrap());
    let collective = Collective::new(spec(CollectiveKind::AllReduce, 4, 8, true)).unwrap();
    let problem = Problem::new(ProblemSpec {
        topology,
        placement: nodes,
        circuits: vec![pairs([(0, 1), (2, 3)])],
        groups: vec![(collective, (0..4).map(rank).collect())],
        cost: CostModel { synchronisation: Delay::from_nanoseconds(7), ..CostModel::FREE },
    });
    let problem = Arc::new(problem.unwrap());
    let mut schedule = Schedule::new("doubling over circuits", &problem, vec![2]);
    for distance in [1, 2] {
        let mut flows = Vec::new();
        for r in 0..4_u32 {
            let hop = Hop::Circuit(DeviceId::new(0), circuit(r as usize, (r ^ distance) as usize));
            let route = schedule.paths.intern(Route::single(vec![hop]));
            let place = Place::output(0);
            let ends = ((rank(r), place), (rank(r ^ distance), place));
            flows.push(rondo_ir::schedule::Flow::unicast(ends.0, ends.1, 2, FlowOp::Reduce, route));
        }
        schedule.steps.push(Step::new(flows));
    }
    schedule.steps[1].reconfigure = vec![(DeviceId::new(0), pairs([(0, 2), (1, 3)]))];
    schedule.leaves_circuits = vec![pairs([(0, 2), (1, 3)])];
    (problem, schedule)
}

fn circuit(a: usize, b: usize) -> Circuit {
    Circuit { from: PortId::new(a), to: PortId::new(b) }
}

fn pairs<const N: usize>(list: [(usize, usize); N]) -> Configuration {
    Configuration::new(list.iter().flat_map(|&(a, b)| [circuit(a, b), circuit(b, a)]).collect())
}

#[test]
fn circuits() {
    let (problem, good) = optical();
    assert_verified(&problem, &good);
    let change = |to: Configuration| {
        let mut schedule = good.clone();
        schedule.steps[1].reconfigure = vec![(DeviceId::new(0), to.clone())];
        schedule.leaves_circuits = vec![to];
        schedule
    };
    // 500 ns for the device, 7 ns to synchronise.
    let price = rondo_verify::price(&problem, &good).unwrap();
    assert_eq!(price.steps[1].reconfiguration, Delay::from_nanoseconds(507).time());
    assert!(price.steps[0].reconfiguration.is_zero());
    let mut schedule = good.clone();
    let again = schedule.steps[1].reconfigure[0].clone();
    schedule.steps[1].reconfigure.push(again);
    assert!(refuted(&problem, &schedule, "V012").contains("twice"));
    let mut schedule = good.clone();
    schedule.steps[1].reconfigure.push((DeviceId::new(4), Configuration::default()));
    refuted(&problem, &schedule, "V012");
    let both = Configuration::new(pairs([(0, 2), (1, 3)]).circuits().iter().copied().chain([circuit(0, 1)]).collect());
    assert!(refuted(&problem, &change(both), "V012").contains("port"));
    assert!(refuted(&problem, &change(pairs([(0, 3), (1, 2)])), "V013").contains("n0 =ocs=> n2"));
    let mut schedule = good.clone();
    schedule.leaves_circuits = problem.circuits().to_vec();
    assert!(refuted(&problem, &schedule, "V014").contains("device ocs"));
    schedule.leaves_circuits = Vec::new();
    refuted(&problem, &schedule, "V014");
    // Without barriers nobody can say when the circuits move.
    let mut schedule = good;
    schedule.dependencies = Some(Dependencies {
        pairs: (0..4).flat_map(|a| (4..8).map(move |b| (FlowId::new(a), FlowId::new(b)))).collect(),
    });
    let outcome = verify(&problem, &schedule);
    assert!(outcome.verified.is_none());
    assert_eq!(outcome.checks.iter().find(|c| c.name == "circuits").map(|c| c.answer), Some(Answer::Unknown));
}

/// Aggregation at the switch into rank 0, then multicast from it.
fn in_network(problem: &Problem) -> Schedule {
    let mut b = Builder::new(problem, 2);
    let flow = b.aggregate(&[1, 2, 3], Place::output(0), (0, Place::output(0)), 2, FlowOp::Reduce);
    b.step(vec![flow]);
    let flow = b.multicast((0, Place::output(0)), &[1, 2, 3], Place::output(0), 2, FlowOp::Copy);
    b.step(vec![flow]);
    b.schedule
}

#[test]
fn trees() {
    let problem = problem(spec(CollectiveKind::AllReduce, 4, 9, true));
    let good = in_network(&problem);
    assert_verified(&problem, &good);
    let topology = problem.topology();
    let hop = |a: &str, b: &str| Hop::Link(link_between(topology, a, b));
    let with = |hops: Vec<Hop>, leaves: &[u32]| {
        let mut schedule = good.clone();
        let tree = schedule.paths.intern_tree(Tree { hops, leaves: leaves.iter().map(|&r| rank(r)).collect() });
        let flow = &mut rows(&mut schedule, 1)[0];
        flow.path = Path::new(PathKind::Multicast(tree));
        schedule
    };
    let fan = |to: &[&str]| -> Vec<Hop> {
        std::iter::once(hop("n0", "sw")).chain(to.iter().map(|to| hop("sw", to))).collect()
    };
    let refuse = |hops, leaves: &[u32], code| refuted(&problem, &with(hops, leaves), code);
    assert!(refuse(fan(&["n1", "n2"]), &[1, 2, 3], "V015").contains("does not reach its leaf n3"));
    assert!(refuse(fan(&["n1", "n2", "n3"]), &[1, 2], "V015").contains("not one of its leaves"));
    assert!(refuse(fan(&["n1", "n2", "n3"]), &[2, 1, 3], "V015").contains("first leaf"));
    refuse(fan(&["n1", "n2", "n3"]), &[1, 2, 2], "V015");
    refuse(fan(&["n1", "n2", "n3"]), &[1, 2, 9], "V015");
    refuse(fan(&["n1", "n2", "n3"]), &[], "V015");
    refuse(vec![hop("sw", "n1"), hop("sw", "n2"), hop("sw", "n3")], &[1, 2, 3], "V015");
    refuse([fan(&["n1", "n2", "n3"]), vec![hop("n2", "n3")]].concat(), &[1, 2, 3], "V015");
    // A ring apart from the tree.
    let island = [fan(&["n1"]), vec![hop("n2", "n3"), hop("n3", "n2")]].concat();
    refuse(island, &[1, 2, 3], "V015");
    refuse(vec![hop("n0", "n1"), hop("n1", "n2"), hop("n2", "n3")], &[1, 2, 3], "V010");
    refuse([fan(&["n1", "n2", "n3"]), vec![hop("sw", "n3")]].concat(), &[1, 2, 3], "V011");
    // A switch that cannot copy, and one that cannot add.
    for (multicasts, reduces) in [(false, true), (true, false)] {
        let mut builder = mesh(4);
        builder.nodes[4] = Node { multicasts, reduces, ..Node::switch("sw") };
        let spec = ProblemSpec { topology: Arc::new(builder.finish().unwrap()), ..problem.to_spec() };
        let what = if multicasts { "cannot add in the network" } else { "cannot multicast" };
        assert!(refuted(&Arc::new(Problem::new(spec).unwrap()), &good, "V016").contains(what));
    }
}

/// Ring AllReduce written as orbits of the rotation.
fn orbits() -> (Arc<Problem>, Schedule) {
    let (problem, mut schedule) = ring4();
    let n = 4_u32;
    let next = |r: u32| (r + 1) % n;
    let routes = schedule.paths.routes().len() as u32;
    schedule.generators = vec![Generator {
        ranks: (0..n).map(|r| rank(next(r))).collect(),
        slots: vec![[(0..n).map(next).collect(), (0..n).map(next).collect(), Vec::new()]],
        routes: (0..routes).map(|r| RouteId::from(next(r))).collect(),
        trees: Vec::new(),
    }];
    for step in &mut schedule.steps {
        let FlowSet::Rows(rows) = &step.flows else { panic!("rows") };
        let representatives = vec![rows[0]];
        step.flows = FlowSet::Orbits { representatives, generators: vec![GeneratorId::new(0)] };
    }
    (problem, schedule)
}

#[test]
fn symmetry() {
    let (problem, good) = orbits();
    assert_verified(&problem, &good);
    assert_eq!(rondo_verify::price(&problem, &good), rondo_verify::price(&problem, &ring(&problem)));
    let with = |change: &dyn Fn(&mut Generator)| {
        let mut schedule = good.clone();
        change(&mut schedule.generators[0]);
        schedule
    };
    // One link is slower than its images.
    let mut builder = problem.topology().to_builder();
    let link = link_between(problem.topology(), "n2", "n3");
    builder.links[link.index()].capacity = rate(2);
    let spec = ProblemSpec { topology: Arc::new(builder.finish().unwrap()), ..problem.to_spec() };
    assert!(refuted(&Arc::new(Problem::new(spec).unwrap()), &good, "V017").contains("rates differ"));
    // A link that no route uses, but that breaks the symmetry.
    let mut builder = problem.topology().to_builder();
    builder.links[link_between(problem.topology(), "n2", "n0").index()].latency = Delay::ZERO;
    let spec = ProblemSpec { topology: Arc::new(builder.finish().unwrap()), ..problem.to_spec() };
    assert!(refuted(&Arc::new(Problem::new(spec).unwrap()), &good, "V017").contains("from n"));
    // In place, both names of a slot must move together.
    refuted(&problem, &with(&|g| g.slots[0][0].swap(0, 1)), "V017");
    for change in [
        (&|g: &mut Generator| g.ranks[0] = rank(3)) as &dyn Fn(&mut Generator),
        &|g| g.ranks[0] = rank(0),
        &|g| g.slots[0][1][0] = 77,
        &|g| g.slots[0][2] = vec![0, 0],
        &|g| g.slots.clear(),
        &|g| g.routes[0] = RouteId::new(88),
        &|g| g.trees = vec![TreeId::new(0)],
    ] {
        let schedule = with(change);
        let outcome = verify(&problem, &schedule);
        assert!(codes(&outcome).contains(&"V018"), "{:#?}", outcome.findings);
        assert_eq!(outcome.answer(), Answer::Refuted);
    }
    let mut schedule = good.clone();
    schedule.steps[0].flows = FlowSet::Orbits { representatives: Vec::new(), generators: vec![GeneratorId::new(5)] };
    assert!(codes(&verify(&problem, &schedule)).contains(&"V018"));
}

#[test]
fn dependencies() {
    let (problem, mut schedule) = ring4();
    let flows = schedule.flow_count();
    // Rank r's flow of step t takes what rank r−1's flow of step t−1 brought.
    let id = |t: usize, r: usize| FlowId::new(t * 4 + r);
    let mut pairs: Vec<_> = (1..6).flat_map(|t| (0..4).map(move |r| (id(t - 1, (r + 3) % 4), id(t, r)))).collect();
    // Before a copy overwrites a slot, the slot has been sent on: that is ordered already, through the ring.
    pairs.sort_unstable();
    schedule.dependencies = Some(Dependencies { pairs: pairs.clone() });
    assert_verified(&problem, &schedule);
    // Chains of four slots side by side: six levels, as many as there were steps.
    assert_eq!(rondo_verify::price(&problem, &schedule), rondo_verify::price(&problem, &ring(&problem)));
    let with =
        |pairs: Vec<(FlowId, FlowId)>| Schedule { dependencies: Some(Dependencies { pairs }), ..schedule.clone() };
    let message = refuted(&problem, &with(pairs[1..].to_vec()), "V040");
    assert!(message.contains("f0 and f5 both touch r1.o[0]"), "{message}");
    let tight = Options { dependency_visits: 1, ..Options::default() };
    let outcome = verify_schedule(Arc::clone(&problem), schedule.clone(), &tight);
    assert_eq!(outcome.answer(), Answer::Unknown, "{:#?}", outcome.checks);
    let fault = |pairs| refuted(&problem, &with(pairs), "V019");
    assert!(fault([&pairs[..], &[(FlowId::new(20), FlowId::new(flows))]].concat()).contains("does not exist"));
    assert!(fault([&pairs[..], &[(FlowId::new(21), FlowId::new(20))]].concat()).contains("earlier flow first"));
    assert!(fault([&pairs[..1], &pairs[..]].concat()).contains("twice"));
}

#[test]
fn scratch_sizes() {
    let (problem, mut schedule) = ring4();
    schedule.scratch[0] =
        Scratch { like: vec![vec![(0, Place::output(0))], Vec::new(), vec![(9, Place::output(0))], Vec::new()] };
    assert!(refuted(&problem, &schedule, "V020").contains("r2.s[0]"));
    schedule.scratch[0].like[2][0] = (0, Place::output(4));
    refuted(&problem, &schedule, "V020");
    schedule.scratch[0].like[2][0] = (0, Place::scratch(0));
    refuted(&problem, &schedule, "V020");
}

#[test]
fn conflicts() {
    let (problem, mut schedule) = ring4();
    let flow = rows(&mut schedule, 3)[0];
    rows(&mut schedule, 3).push(flow);
    assert_eq!(refuted(&problem, &schedule, "V030").lines().next(), Some("f12 and f16 both write r1.o[1] in step s3"));
    let problem = common::problem(spec(CollectiveKind::AllGather, 2, 4, false));
    let mut b = Builder::new(&problem, 1);
    let flow = b.flow((0, Place::input(0)), (1, Place::input(0)), 1, FlowOp::Copy);
    b.step(vec![flow]);
    let outcome = verify(&problem, &b.schedule);
    assert_eq!(codes(&outcome), ["V033"]);
}

#[test]
fn undefined_places() {
    let problem = common::problem(spec(CollectiveKind::AllGather, 3, 6, true));
    let mut b = Builder::new(&problem, 1);
    let mut all = Vec::new();
    for t in 0..2 {
        let flows = (0..3).map(|r| {
            b.flow((r, Place::output((r + 3 - t) % 3)), ((r + 1) % 3, Place::output((r + 3 - t) % 3)), 1, FlowOp::Copy)
        });
        all.push(flows.collect::<Vec<_>>());
    }
    for flows in &all {
        b.step(flows.clone());
    }
    assert_verified(&problem, &b.schedule);
    let mut schedule = b.schedule.clone();
    schedule.steps.swap(0, 1);
    let outcome = verify(&problem, &schedule);
    assert_eq!(codes(&outcome), ["V031"]);
    assert_eq!(outcome.findings[0].message, "r0.o[2] is undefined when f0 in step s0 reads it");
    assert!(
        outcome.findings[0].notes[1].contains("too late, it is first written by s1 f5"),
        "{:?}",
        outcome.findings[0]
    );
    let mut schedule = b.schedule.clone();
    rows(&mut schedule, 1)[1].op = FlowOp::Reduce;
    assert!(refuted(&problem, &schedule, "V032").starts_with("r2.o[0] is undefined when f4 in step s1 adds to it"));
    let mut schedule = b.schedule;
    rows(&mut schedule, 1).remove(1);
    assert!(refuted(&problem, &schedule, "V037").starts_with("r2.o[0] is never written\nit should hold r0.i[0]"));
}

#[test]
fn a_missing_contribution_is_traced() {
    let (problem, mut schedule) = ring4();
    // Step 1 adds slot r−1 of rank r to rank r+1: without f5, rank 2 lacks slot 0 of ranks 0 and 1.
    rows(&mut schedule, 1).remove(1);
    let message = refuted(&problem, &schedule, "V034");
    let lines: Vec<_> = message.lines().collect();
    assert_eq!(lines[0], "r3.o[0] lacks r0.i[0] and 1 more contribution", "{message}");
    assert_eq!(lines[1], "it holds r2.i[0] + r3.i[0]");
    assert_eq!(lines[2], "it should hold r0.i[0] + r1.i[0] + r2.i[0] + r3.i[0]");
    // f5 was the only way for the sum of ranks 0 and 1.
    assert_eq!(lines[3], "r0.i[0] never meets the data of r3.o[0]");
    assert_eq!(lines[4], "its value was made by 1 flow:");
    assert!(lines[5].contains("s2 f9: r2.o[0] -> r3.o[0] reduce"), "{message}");
    assert!(message.contains("3 more output places are wrong through the same data"), "{message}");
}

#[test]
fn a_contribution_counted_twice_names_the_flow() {
    let (problem, mut schedule) = ring4();
    // Repeated one step later it does no harm: what it spoils is not sent on, and overwritten in the end.
    let again = rows(&mut schedule, 0)[0];
    let mut harmless = schedule.clone();
    rows(&mut harmless, 1).push(again);
    assert_verified(&problem, &harmless);
    rows(&mut schedule, 0).push(again);
    let message = refuted(&problem, &schedule, "V035");
    assert!(message.starts_with("r3.o[0] counts r0.i[0] twice, not once"), "{message}");
    assert!(message.contains("it cannot be right any more after s0 f4: r0.o[0] -> r1.o[0] reduce"), "{message}");
    assert!(message.contains("which leaves 2·r0.i[0] + r1.i[0] in r1.o[0]"), "{message}");
    assert!(message.contains("its value was made by 4 flows:"), "{message}");
    // Max does not mind.
    let mut max = spec(CollectiveKind::AllReduce, 4, 16, true);
    max.operator = ReduceOperator::Max;
    assert_verified(&common::problem(max), &schedule);
}

#[test]
fn a_contribution_that_does_not_belong() {
    let problem = common::problem(spec(CollectiveKind::Broadcast { root: 0 }, 2, 4, false));
    let mut b = Builder::new(&problem, 2);
    let flows = vec![
        b.flow((0, Place::input(0)), (0, Place::output(0)), 2, FlowOp::Copy),
        b.flow((0, Place::input(0)), (1, Place::output(1)), 1, FlowOp::Copy),
        b.flow((0, Place::input(1)), (1, Place::output(0)), 1, FlowOp::Copy),
    ];
    b.step(flows);
    let message = refuted(&problem, &b.schedule, "V036");
    assert!(message.starts_with("r1.o[1] holds r0.i[0], which does not belong there"), "{message}");
    assert!(message.contains("after s0 f1: "), "{message}");
}

#[test]
fn custom_counts_are_exact() {
    let c = |origin, slot| Contribution { origin, slot };
    let custom = |count| {
        CollectiveKind::Custom(CustomCollective {
            input_slots: vec![1, 1],
            output: vec![vec![Some(vec![(c(0, 0), 1), (c(1, 0), count)])], vec![None]],
        })
    };
    let build = |problem: &Problem| {
        let mut b = Builder::new(problem, 1);
        let flow = b.flow((0, Place::input(0)), (0, Place::output(0)), 1, FlowOp::Copy);
        b.step(vec![flow]);
        for _ in 0..2 {
            let flow = b.flow((1, Place::input(0)), (0, Place::output(0)), 1, FlowOp::Reduce);
            b.step(vec![flow]);
        }
        b.schedule
    };
    let right = common::problem(spec(custom(2), 2, 4, false));
    assert_verified(&right, &build(&right));
    let wrong = common::problem(spec(custom(3), 2, 4, false));
    refuted(&wrong, &build(&wrong), "V034");
    let wrong = common::problem(spec(custom(1), 2, 4, false));
    refuted(&wrong, &build(&wrong), "V035");
    let endless = common::problem(spec(custom(u64::MAX), 2, 4, false));
    // The exact checker does not count that far; the SMT proof does.
    let exact = Options { smt: SmtMode::Off, ..Options::default() };
    assert_eq!(verify_schedule(Arc::clone(&endless), build(&endless), &exact).answer(), Answer::Unknown);
    if cfg!(feature = "smt") {
        refuted(&endless, &build(&endless), "V901");
    }
}

#[test]
fn limits_give_unknown() {
    let (problem, schedule) = ring4();
    for options in [
        Options { places: 3, ..Options::default() },
        Options { transfers: 3, ..Options::default() },
        Options { memory: 0, ..Options::default() },
    ] {
        let outcome = verify_schedule(Arc::clone(&problem), schedule.clone(), &options);
        assert_eq!(outcome.answer(), Answer::Unknown, "{:#?}", outcome.checks);
        assert!(outcome.findings.is_empty());
    }
    let mut many = schedule;
    many.steps.truncate(1);
    // 16 contributions, of which the 4 flows join 4 pairs: 12 pieces of data, none of which is complete.
    let outcome = verify_schedule(problem, many, &Options { findings: 2, ..Options::default() });
    assert_eq!(outcome.findings.len(), 2);
    assert!(
        outcome.findings[1].notes.last().is_some_and(|n| n.starts_with("10 more findings")),
        "{:#?}",
        outcome.findings
    );
}

#[test]
fn two_groups_do_not_share_buffers() {
    let topology = Arc::new(mesh(4).finish().unwrap());
    let collective = || Collective::new(spec(CollectiveKind::AllReduce, 2, 4, true)).unwrap();
    let problem = Problem::new(ProblemSpec {
        placement: topology.compute_nodes().collect(),
        topology,
        circuits: Vec::new(),
        groups: vec![(collective(), vec![rank(0), rank(1)]), (collective(), vec![rank(3), rank(0)])],
        cost: CostModel::FREE,
    });
    let problem = Arc::new(problem.unwrap());
    let mut b = Builder::new(&problem, 1);
    let place = Place::output(0);
    let mut flows = Vec::new();
    for (group, a, z) in [(0, 0, 1), (0, 1, 0), (1, 3, 0), (1, 0, 3)] {
        let flow = b.flow((a, place), (z, place), 1, FlowOp::Reduce);
        flows.push(rondo_ir::schedule::Flow { group: GroupId::new(group), ..flow });
    }
    b.step(flows);
    assert_verified(&problem, &b.schedule);
    let mut schedule = b.schedule.clone();
    rows(&mut schedule, 0)[2].group = GroupId::new(0);
    assert!(refuted(&problem, &schedule, "V002").contains("r3, which is no member of group g0"));
    let mut schedule = b.schedule;
    rows(&mut schedule, 0).pop();
    assert!(refuted(&problem, &schedule, "V034").starts_with("r3.o[0] lacks g1:r0.i[0]"));
}

#[test]
fn slots_without_elements_may_be_left_out() {
    let matrix = vec![vec![4, 2, 0], vec![0, 4, 3], vec![1, 0, 4]];
    let problem = problem(spec(CollectiveKind::AllToAll { matrix: Some(matrix.clone()) }, 3, 0, false));
    let without = |left_out: &dyn Fn(u32, u32) -> bool| {
        let mut b = Builder::new(&problem, 1);
        let pairs = (0..3).flat_map(|p| (0..3).map(move |q| (p, q))).filter(|&(p, q)| !left_out(p, q));
        let flows = pairs.map(|(p, q)| b.flow((p, Place::input(q)), (q, Place::output(p)), 1, FlowOp::Copy)).collect();
        b.step(flows);
        b.schedule
    };
    assert_verified(&problem, &without(&|_, _| false));
    assert_verified(&problem, &without(&|p, q| matrix[p as usize][q as usize] == 0));
    let outcome = verify(&problem, &without(&|p, q| matrix[p as usize][q as usize] <= 1));
    assert_eq!((outcome.answer(), codes(&outcome)), (Answer::Refuted, vec!["V037"]), "2 sends 1 element to 0");
}
