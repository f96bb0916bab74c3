use std::collections::BTreeSet;
use std::sync::Arc;

use rondo_ir::collective::{
    Buffer, Collective, CollectiveKind, CollectiveSpec, Contribution, CustomCollective, DataType,
};
use rondo_ir::collective::{Place, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::index::{GroupId, LinkId, PortId};
use rondo_ir::problem::ProblemSpec;
use rondo_ir::schedule::{Flow, FlowOp, Route, Schedule, Step};
use rondo_ir::topology::{
    Circuit, Device, Hop, LegalConfigurations, Medium, Node, Port, PortDirection, Topology, TopologyBuilder,
};
use rondo_ir::units::{Bytes, Delay, Rate};

use super::*;
use crate::{Answer, Options, price, verify_schedule};

const GB: u64 = 1_000_000_000;

fn gb(rate: u64) -> Rate {
    Rate::new(rate * GB).unwrap()
}

fn us(delay: u64) -> Delay {
    Delay::from_nanoseconds(1000 * delay)
}

fn seconds(numerator: u128, denominator: u128) -> Time {
    Time::from_seconds(BigRational::new(numerator.into(), denominator.into()))
}

/// One collective over the first ranks; start-up 3 us.
fn problem(builder: TopologyBuilder, kind: CollectiveKind, ranks: u32, bytes: u64) -> Problem {
    let in_place = kind.has_in_place_form();
    let spec = CollectiveSpec {
        kind,
        ranks,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(bytes),
        in_place,
        input_writable: false,
    };
    let cost = CostModel { startup: us(3), ..CostModel::FREE };
    Problem::single(Arc::new(builder.finish().unwrap()), Collective::new(spec).unwrap(), cost).unwrap()
}

/// A torus of forwarding nodes at 1 GB/s and 1 us; a side of 2 has two parallel links each way.
fn torus(sides: &[usize]) -> TopologyBuilder {
    let n: usize = sides.iter().product();
    let mut builder = TopologyBuilder::new("torus");
    let nodes: Vec<_> = (0..n).map(|i| builder.node(Node::compute(format!("gpu{i}")).forwarding(true))).collect();
    let mut stride = 1;
    for &side in sides {
        if 1 < side {
            for at in 0..n {
                let x = at / stride % side;
                let next = at - x * stride + (x + 1) % side * stride;
                builder.cable(nodes[at], nodes[next], gb(1), us(1));
            }
        }
        stride *= side;
    }
    builder
}

/// One switch, 1 GB/s and 1 us a cable.
fn switch(n: usize) -> TopologyBuilder {
    let mut builder = TopologyBuilder::new("switch");
    let nodes: Vec<_> = (0..n).map(|i| builder.node(Node::compute(format!("gpu{i}")))).collect();
    let sw = builder.node(Node::switch("sw"));
    for node in nodes {
        builder.cable(node, sw, gb(1), us(1));
    }
    builder
}

fn kinds(n: u32) -> Vec<CollectiveKind> {
    vec![
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll { matrix: None },
        CollectiveKind::Broadcast { root: n - 1 },
        CollectiveKind::Reduce { root: 0 },
        CollectiveKind::Gather { root: n / 2 },
        CollectiveKind::Scatter { root: 1 },
        CollectiveKind::SendReceive { targets: (0..n).map(|p| (p != 0).then(|| (p + 1) % n)).collect() },
    ]
}

#[test]
fn torus_all_to_all_is_bound_by_the_golden_bisection() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/golden/a_torus_shapes.json")).unwrap();
    let mut checked = 0;
    for row in golden["rows"].as_array().unwrap() {
        let n = row["n"].as_u64().unwrap();
        if 4096 < n {
            continue;
        }
        let sides: Vec<usize> = row["shape"].as_str().unwrap().split('x').map(|s| s.parse().unwrap()).collect();
        let kind = CollectiveKind::AllToAll { matrix: None };
        let problem = problem(torus(&sides), kind, u32::try_from(n).unwrap(), n * 4000);
        let found = bound(&problem).unwrap();
        // In blocks a link; halves occur, nothing finer.
        let blocks = row["ATA_bisection_bound"].as_f64().unwrap();
        let halves = (2.0 * blocks).round();
        assert!((halves - 2.0 * blocks).abs() < 1e-9);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let expected = seconds(halves as u128 * 4000, 2 * u128::from(GB));
        assert_eq!(found.bandwidth.time, expected, "{sides:?}: {}", found.bandwidth.cut);
        let hops = row["diam_exact"].as_u64().unwrap();
        assert_eq!(found.latency.propagation, seconds(u128::from(hops), 1_000_000), "{sides:?}");
        assert_eq!((found.latency.steps, &found.latency.startup), (1, &us(3).time()));
        assert_eq!(found.synchronous, found.bandwidth.time.clone() + found.latency.time.clone());
        assert_eq!(found.time, found.bandwidth.time.clone().max(found.latency.time));
        checked += 1;
    }
    assert!(20 <= checked);
}

#[test]
fn rings_tori_and_switches_have_their_known_bounds() {
    let size = 4 * 5 * 7 * 9 * 16 * 27 * 1000_u64;
    let bytes = |kind: &CollectiveKind, builder: TopologyBuilder, n: u32| {
        let found = bound(&problem(builder, kind.clone(), n, size)).unwrap();
        (found.bandwidth.time.clone(), found.bandwidth.cut)
    };
    let (m, n) = (u128::from(size), 8_u128);
    let time = |bytes: u128, parts: u128| seconds(bytes, parts * u128::from(GB));
    // A ring has two links out of each rank; blocks are m/n.
    let (gather, scatter) = (CollectiveKind::AllGather, CollectiveKind::ReduceScatter);
    let (reduce, exchange) = (CollectiveKind::AllReduce, CollectiveKind::AllToAll { matrix: None });
    assert_eq!(bytes(&gather, torus(&[8]), 8), (time((n - 1) * m / n, 2), "into gpu0".to_owned()));
    assert_eq!(bytes(&scatter, torus(&[8]), 8), (time((n - 1) * m / n, 2), "out of gpu0".to_owned()));
    assert_eq!(bytes(&reduce, torus(&[8]), 8), (time((n - 1) * m / n, 1), "total egress of the ranks".to_owned()));
    // A torus of three equal sides has six.
    assert_eq!(bytes(&gather, torus(&[3, 3, 3]), 27).0, time(26 * m / 27, 6));
    assert_eq!(bytes(&reduce, torus(&[4, 4]), 16).0, time(2 * 15 * m / 16, 4));
    // On a switch each rank has one.
    assert_eq!(bytes(&gather, switch(8), 8), (time((n - 1) * m / n, 1), "into gpu0".to_owned()));
    assert_eq!(bytes(&scatter, switch(8), 8).0, time((n - 1) * m / n, 1));
    assert_eq!(bytes(&exchange, switch(8), 8).0, time((n - 1) * m / n, 1));
    assert_eq!(bytes(&reduce, switch(8), 8).0, time(2 * (n - 1) * m / n, 1));
    assert_eq!(bytes(&CollectiveKind::Reduce { root: 3 }, switch(8), 8).0, time(m, 1));
    // A switch that adds and copies needs each vector once.
    let mut able = switch(8);
    able.nodes[8].reduces = true;
    able.nodes[8].multicasts = true;
    assert_eq!(bytes(&reduce, able, 8).0, time(m, 1));
    // One way round only: everything passes over one link into each rank.
    let mut one_way = torus(&[8]);
    one_way.links.retain(|link| link.dst.index() == (link.src.index() + 1) % 8);
    assert_eq!(bytes(&gather, one_way, 8).0, time((n - 1) * m / n, 1));
}

#[test]
fn racks_and_machines_are_named_by_their_up_links() {
    // Two racks of four at 10 GB/s, one cable of 1 GB/s from each to the spine.
    let mut builder = TopologyBuilder::new("two racks");
    let hosts: Vec<_> = (0..8).map(|i| builder.node(Node::compute(format!("h{i}")))).collect();
    let tors: Vec<_> = (0..2).map(|i| builder.node(Node::switch(format!("tor{i}")))).collect();
    let spine = builder.node(Node::switch("spine"));
    for (i, &host) in hosts.iter().enumerate() {
        builder.cable(host, tors[i / 4], gb(10), us(1));
    }
    for &tor in &tors {
        builder.cable(tor, spine, gb(1), us(2));
    }
    let exchange = problem(builder.clone(), CollectiveKind::AllToAll { matrix: None }, 8, 8 * 4000);
    let found = bound(&exchange).unwrap();
    assert_eq!(found.bandwidth.cut, "out of {h0, h1, h2, h3}: links of tor0");
    assert_eq!((found.bandwidth.bytes, found.bandwidth.capacity), (16 * 4000, u128::from(GB)));
    assert_eq!(found.latency.propagation, seconds(6, 1_000_000));
    assert_eq!(found.latency.way, "from h0 to h4, 1 step");
    let reduce = problem(builder, CollectiveKind::AllReduce, 8, 4000);
    assert_eq!(bound(&reduce).unwrap().bandwidth.time, seconds(4000, u128::from(GB)));
}

#[test]
fn limits_of_nodes_media_and_devices_count() {
    let all_gather = |builder: TopologyBuilder, n: u32| {
        let found = bound(&problem(builder, CollectiveKind::AllGather, n, u64::from(n) * 6000)).unwrap().bandwidth;
        (found.time, found.cut)
    };
    let time = |bytes, mb: u128| seconds(bytes, mb * 1_000_000);
    // Half duplex: both directions share 1 GB/s.
    let mut half = torus(&[3]);
    half.links.retain(|link| link.dst.index() < 2 && link.src.index() < 2);
    half.nodes.pop();
    half.media = vec![Medium { name: "bus".into(), capacity: gb(1), links: (0..2).map(LinkId::new).collect() }];
    assert_eq!(all_gather(half, 2), (time(12000, 1000), "between gpu0 and gpu1, both ways".to_owned()));
    let mut slow = switch(4);
    slow.nodes[2].ejection = Rate::new(GB / 2);
    assert_eq!(all_gather(slow, 4), (time(18000, 500), "into gpu2".to_owned()));
    let mut slow = switch(4);
    slow.nodes[1].injection = Rate::new(GB / 20);
    assert_eq!(all_gather(slow, 4), (time(6000, 50), "out of gpu1".to_owned()));
    // What passes through the switch: each rank receives three blocks.
    let mut slow = switch(4);
    slow.nodes[4].throughput = Some(gb(2));
    assert_eq!(all_gather(slow, 4), (time(4 * 18000, 2000), "through sw".to_owned()));
    // Circuits: one port of 1 GB/s each way.
    let mut builder = TopologyBuilder::new("ocs");
    let port = |node| Port { node, direction: PortDirection::Duplex, capacity: gb(1), latency: us(1) };
    let ports: Vec<Port> = (0..4).map(|i| port(builder.node(Node::compute(format!("n{i}"))))).collect();
    let (name, reconfiguration_delay) = ("ocs".to_owned(), us(10));
    let legal = LegalConfigurations::AnyMatching;
    builder.device(Device { name, ports, reconfiguration_delay, legal });
    assert_eq!(all_gather(builder.clone(), 4).0, time(18000, 1000));
    let reduce = bound(&problem(builder, CollectiveKind::AllReduce, 4, 8000)).unwrap();
    assert_eq!(reduce.bandwidth.time, time(12000, 1000));
    assert_eq!((reduce.latency.steps, reduce.latency.propagation), (1, seconds(2, 1_000_000)));
}

#[test]
fn circuits_that_can_never_be_set_are_no_way() {
    let mut builder = TopologyBuilder::new("fixed");
    let port = |node| Port { node, direction: PortDirection::Duplex, capacity: gb(1), latency: us(1) };
    let ports: Vec<Port> = (0..4).map(|i| port(builder.node(Node::compute(format!("n{i}"))))).collect();
    let pair = |a, b| Circuit { from: PortId::new(a), to: PortId::new(b) };
    let legal = LegalConfigurations::Only { circuits: vec![pair(0, 1), pair(1, 0)] };
    builder.device(Device { name: "ocs".to_owned(), ports, reconfiguration_delay: us(10), legal });
    let kind = CollectiveKind::AllGather;
    let error = bound(&problem(builder, kind, 4, 4000)).unwrap_err();
    assert_eq!(error.to_string(), "no path leads out of n2, but 1000 B must pass");
}

#[test]
fn relays_pay_a_start_up_each() {
    // gpu0 - gpu1 - gpu2 in a row, none of which forwards.
    let line = |forwards: bool| {
        let mut builder = TopologyBuilder::new("line");
        let nodes: Vec<_> =
            (0..3).map(|i| builder.node(Node::compute(format!("gpu{i}")).forwarding(forwards))).collect();
        builder.cable(nodes[0], nodes[1], gb(1), us(1));
        builder.cable(nodes[1], nodes[2], gb(1), us(1));
        bound(&problem(builder, CollectiveKind::Broadcast { root: 0 }, 3, 400)).unwrap().latency
    };
    let relayed = line(false);
    assert_eq!((relayed.steps, relayed.time), (2, us(8).time()));
    assert_eq!(relayed.way, "from gpu0 to gpu2, 2 steps");
    let passed = line(true);
    assert_eq!((passed.steps, passed.time), (1, us(5).time()));
}

#[test]
fn nothing_to_move_takes_no_time() {
    for (n, bytes) in [(1, 4000), (4, 0)] {
        let found = bound(&problem(torus(&[n as usize]), CollectiveKind::AllReduce, n, bytes)).unwrap();
        assert!(found.time.is_zero() && found.synchronous.is_zero(), "{found:?}");
        assert_eq!(found.bandwidth.cut, "nothing has to move");
        assert_eq!(found.latency.pair, None);
    }
}

#[test]
fn groups_add_up() {
    let base = problem(switch(4), CollectiveKind::AllGather, 4, 16000).to_spec();
    let mut twice = base.clone();
    twice.groups.push(twice.groups[0].clone());
    twice.groups[1].1.reverse();
    let (one, two) = (bound(&Problem::new(base).unwrap()).unwrap(), bound(&Problem::new(twice).unwrap()).unwrap());
    assert_eq!(two.bandwidth.time, one.bandwidth.time.clone() + one.bandwidth.time);
    assert_eq!(two.latency, one.latency);
}

#[test]
fn custom_conditions_count_what_must_cross() {
    let c = |origin, slot| Contribution { origin, slot };
    // gpu1 wants both slots of gpu0 and their sum: two values must cross, not three.
    let custom = CustomCollective {
        input_slots: vec![2, 1],
        output: vec![
            vec![],
            vec![
                Some(vec![(c(0, 0), 1), (c(0, 1), 1), (c(1, 0), 1)]),
                Some(vec![(c(0, 0), 1)]),
                Some(vec![(c(0, 1), 1)]),
            ],
        ],
    };
    let problem = problem(torus(&[2]), CollectiveKind::Custom(custom), 2, 12000);
    let found = bound(&problem).unwrap().bandwidth;
    assert_eq!((found.bytes, found.capacity), (8000, 2 * u128::from(GB)));
}

/// Reproducible small numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Strongly connected: a ring with some links more, each of 1 to 4 GB/s and 1 to 3 us.
fn random(dice: &mut Dice, n: usize) -> TopologyBuilder {
    let mut builder = TopologyBuilder::new("random");
    let nodes: Vec<_> = (0..n).map(|i| builder.node(Node::compute(format!("g{i}")).forwarding(true))).collect();
    let mut link = |dice: &mut Dice, a: usize, b: usize| {
        builder.link(nodes[a], nodes[b], gb(1 + dice.roll(4)), us(1 + dice.roll(3)));
    };
    for a in 0..n {
        link(dice, a, (a + 1) % n);
        for b in 0..n {
            if a != b && dice.roll(3) == 0 {
                link(dice, a, b);
            }
        }
    }
    builder
}

/// The tightest cut by its definition: every set of nodes, and the distinct parts of outputs that stem from inside.
fn brute_force(problem: &Problem) -> Time {
    let topology = problem.topology();
    let n = problem.rank_count();
    let layout = problem.layout(GroupId::new(0), 1).unwrap();
    let mut worst = Time::zero();
    for mask in 1_u32..(1 << n) - 1 {
        let inside = |node: usize| mask >> node & 1 == 1;
        let mut parts: BTreeSet<Vec<Contribution>> = BTreeSet::new();
        let mut bytes = 0_u128;
        for position in (0_u32..).take(n).filter(|&p| !inside(p as usize)) {
            for slot in 0..layout.slots(position, Buffer::Output) {
                let Some(expected) = layout.postcondition(position, slot) else { continue };
                let part: Vec<Contribution> = expected
                    .to_multiset(u32::try_from(n).unwrap())
                    .into_iter()
                    .map(|(contribution, _)| contribution)
                    .filter(|c| inside(c.origin as usize))
                    .collect();
                if !part.is_empty() && parts.insert(part) {
                    bytes += 4 * u128::from(layout.elements(position, Place::output(slot)));
                }
            }
        }
        let crossing = topology.links().iter().filter(|l| inside(l.src.index()) && !inside(l.dst.index()));
        let capacity: u128 = crossing.map(|link| u128::from(link.capacity.bytes_per_second())).sum();
        worst = worst.max(quotient(bytes, capacity));
    }
    worst
}

#[test]
fn small_topologies_agree_with_all_their_cuts() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for round in 0..30 {
        let n = 2 + usize::try_from(dice.roll(5)).unwrap();
        let builder = random(&mut dice, n);
        for kind in kinds(u32::try_from(n).unwrap()) {
            let name = kind.name();
            let problem = problem(builder.clone(), kind.clone(), u32::try_from(n).unwrap(), 4 * 60 * n as u64);
            let oracle = brute_force(&problem);
            let all = bound(&problem).unwrap().bandwidth;
            // Without trying all cuts, maximal flow finds the tightest for one commodity at a time.
            let demands = demand::demands(&problem, &[1]).unwrap();
            let some = cuts::tightest(&problem, &graph::Graph::new(&problem), &demands, 0).unwrap();
            match kind {
                // Its total over all ranks is more than any cut says.
                CollectiveKind::AllReduce => assert!(oracle <= some.time && some.time <= all.time, "{round} {name}"),
                CollectiveKind::AllToAll { .. }
                | CollectiveKind::Scatter { .. }
                | CollectiveKind::SendReceive { .. } => {
                    assert_eq!(all.time, oracle, "{round} {name} {}", all.cut);
                    assert!(some.time <= oracle, "{round} {name} {}", some.cut);
                }
                _ => {
                    assert_eq!(all.time, oracle, "{round} {name} {}", all.cut);
                    assert_eq!(some.time, oracle, "{round} {name} {}", some.cut);
                }
            }
        }
    }
}

/// Fewest hops, then lowest link numbers.
fn route(topology: &Topology, from: usize, to: usize) -> Route {
    let n = topology.nodes().len();
    let mut by: Vec<Option<usize>> = vec![None; n];
    let mut queue = vec![from];
    let mut next = 0;
    while next < queue.len() {
        let at = queue[next];
        next += 1;
        for (index, link) in topology.links().iter().enumerate().filter(|(_, link)| link.src.index() == at) {
            let end = link.dst.index();
            if end != from && by[end].is_none() {
                by[end] = Some(index);
                queue.push(end);
            }
        }
    }
    let mut hops = Vec::new();
    let mut at = to;
    while at != from {
        let link = by[at].unwrap();
        hops.push(Hop::Link(LinkId::new(link)));
        at = topology.links()[link].src.index();
    }
    hops.reverse();
    Route::single(hops)
}

/// Everybody sends what each other rank needs, in one step; all_reduce once more through rank 0 in two steps.
fn simple_schedules(problem: &Problem) -> Vec<Schedule> {
    let n = u32::try_from(problem.rank_count()).unwrap();
    let pair = |schedule: &mut Schedule, p: u32, q: u32, from: Place, to: Place, op: FlowOp| {
        let id = schedule.paths.intern(route(problem.topology(), p as usize, q as usize));
        Flow::unicast((RankId::from(p), from), (RankId::from(q), to), 1, op, id)
    };
    let pairs = || (0..n).flat_map(|p| (0..n).filter(move |&q| q != p).map(move |q| (p, q)));
    let mut schedule = Schedule::new("direct", problem, vec![1]);
    let own = |rank: u32, from: u32, to: u32| {
        Flow::local(RankId::from(rank), Place::input(from), Place::output(to), 1, FlowOp::Copy)
    };
    let flows: Vec<Flow> = match problem.groups()[0].collective().kind() {
        CollectiveKind::AllReduce => {
            let mut central = Schedule::new("central", problem, vec![1]);
            let o = Place::output(0);
            let up = (1..n).map(|p| pair(&mut central, p, 0, o, o, FlowOp::Reduce)).collect();
            let down = (1..n).map(|q| pair(&mut central, 0, q, o, o, FlowOp::Copy)).collect();
            central.steps = vec![Step::new(up), Step::new(down)];
            let all = pairs().map(|(p, q)| pair(&mut schedule, p, q, o, o, FlowOp::Reduce)).collect();
            schedule.steps = vec![Step::new(all)];
            return vec![central, schedule];
        }
        CollectiveKind::AllGather => {
            pairs().map(|(p, q)| pair(&mut schedule, p, q, Place::output(p), Place::output(p), FlowOp::Copy)).collect()
        }
        CollectiveKind::ReduceScatter => {
            pairs().map(|(p, q)| pair(&mut schedule, p, q, Place::input(q), Place::input(q), FlowOp::Reduce)).collect()
        }
        CollectiveKind::AllToAll { .. } => {
            let mut flows: Vec<Flow> = pairs()
                .map(|(p, q)| pair(&mut schedule, p, q, Place::input(q), Place::output(p), FlowOp::Copy))
                .collect();
            flows.extend((0..n).map(|r| own(r, r, r)));
            flows
        }
        _ => return Vec::new(),
    };
    schedule.steps = vec![Step::new(flows)];
    vec![schedule]
}

#[test]
fn no_right_schedule_is_priced_below_its_bound() {
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let mut checked = 0;
    for _ in 0..25 {
        let n = 2 + usize::try_from(dice.roll(5)).unwrap();
        let builder = if dice.roll(4) == 0 { switch(n) } else { random(&mut dice, n) };
        for kind in kinds(u32::try_from(n).unwrap()) {
            // Sizes that n does not divide, too.
            let size = 4 * (1 + dice.roll(5000));
            let problem = problem(builder.clone(), kind, u32::try_from(n).unwrap(), size);
            for schedule in simple_schedules(&problem) {
                let priced = price(&problem, &schedule).unwrap().total;
                let found = bound_at(&problem, &schedule.chunks).unwrap();
                assert!(found.time <= found.synchronous && found.synchronous <= priced, "{found:?} {priced}");
                let name = schedule.algorithm.clone();
                let outcome = verify_schedule(Arc::new(problem.clone()), schedule, &Options::default());
                assert_eq!(outcome.answer(), Answer::Proved, "{name} {:?}", outcome.findings);
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 25 * 5);
}

#[test]
fn chunk_counts_are_checked() {
    let problem = problem(switch(3), CollectiveKind::AllGather, 3, 12);
    assert_eq!(bound_at(&problem, &[]), Err(BoundError::ChunkCount { given: 0, limit: 1 }));
    assert_eq!(bound_at(&problem, &[0]).unwrap_err().to_string(), "a block needs at least 1 chunk");
    let spec = ProblemSpec { groups: Vec::new(), ..problem.to_spec() };
    assert!(bound(&Problem::new(spec).unwrap()).unwrap().time.is_zero());
}
