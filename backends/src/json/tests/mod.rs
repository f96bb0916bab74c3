//! Round trips, refusals and hostile input. Random plans come from a seeded generator, so a failure can be run again.

use std::sync::Arc;

use num_rational::Ratio;
use rondo_ir::collective::{
    Buffer, Collective, CollectiveKind, CollectiveSpec, Contribution, CustomCollective, DataType, Place, ReduceOperator,
};
use rondo_ir::cost::CostModel;
use rondo_ir::index::{DeviceId, FlowId, GeneratorId, GroupId, LinkId, NodeId, PortId, RankId, RouteId, TreeId};
use rondo_ir::problem::{Problem, ProblemSpec};
use rondo_ir::program::{
    Connection, Operation, OperationKind, OperationRef, Program, RankProgram, SourceSpan, Threadblock,
};
use rondo_ir::schedule::{
    Dependencies, Flow, FlowOp, FlowSet, Generator, Path, PathKind, Paths, Route, RoutePart, Schedule, Scratch, Step,
    Tree,
};
use rondo_ir::topology::{
    Circuit, Configuration, Device, Hop, LegalConfigurations, Link, Medium, Node, NodeKind, Port, PortDirection,
    TopologyBuilder,
};
use rondo_ir::units::{Bytes, Delay, PerByte, Rate, Time};

mod refusals;
mod schema;

use super::{Claimed, Plan, ProgramHeader, emit, looks_like_plan, parse, to_text};

/// A small generator of pseudo-random numbers (splitmix64); the seed is all its state.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn number(&mut self, limit: usize) -> u32 {
        u32::try_from(self.below(limit)).unwrap()
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn list<T>(&mut self, limit: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(limit)).map(|_| make(self)).collect()
    }

    fn permutation(&mut self, n: usize) -> Vec<u32> {
        let mut list: Vec<u32> = (0..u32::try_from(n).unwrap()).collect();
        for i in (1..n).rev() {
            list.swap(i, self.below(i + 1));
        }
        list
    }

    fn rate(&mut self) -> Rate {
        let shift = self.below(63);
        Rate::new(self.next() >> shift | 1).unwrap()
    }

    fn delay(&mut self) -> Delay {
        let shift = self.below(64);
        // No file holds more than an hour.
        Delay::from_femtoseconds((self.next() >> shift).min(Delay::LONGEST.femtoseconds()))
    }

    fn place(&mut self) -> Place {
        let buffer = self.pick(&Buffer::ALL);
        Place::new(buffer, self.number(1 << 12))
    }

    fn name(&mut self) -> String {
        self.pick(&["", "plain", "with \"quotes\" and \\", "Ümläut ↔ 環", "tab\tline\nnul\u{0}", "a\u{7f}\u{2028}"])
            .into()
    }

    fn time(&mut self) -> Time {
        let rate = self.rate();
        rate.time_for(u128::from(self.next()))
    }
}

fn collective(random: &mut Random, ranks: u32) -> Collective {
    let n = ranks as usize;
    let root = random.number(n);
    let mut in_place = random.chance(2);
    let kind = match random.below(11) {
        0 => CollectiveKind::AllReduce,
        1 => CollectiveKind::AllGather,
        2 => CollectiveKind::ReduceScatter,
        3 => CollectiveKind::AllToAll { matrix: None },
        4 => CollectiveKind::AllToAll {
            matrix: Some((0..n).map(|_| (0..n).map(|_| random.next() >> 20).collect()).collect()),
        },
        5 => CollectiveKind::Broadcast { root },
        6 => CollectiveKind::Reduce { root },
        7 => CollectiveKind::Gather { root },
        8 => CollectiveKind::Scatter { root },
        9 => {
            let targets = random.permutation(n);
            CollectiveKind::SendReceive {
                targets: targets.into_iter().map(|target| if random.chance(3) { None } else { Some(target) }).collect(),
            }
        }
        _ => {
            let input_slots: Vec<u32> = (0..n).map(|_| 1 + random.number(3)).collect();
            let output = (0..n)
                .map(|_| {
                    random.list(4, |random| {
                        let mut held = Vec::new();
                        for (origin, &slots) in (0..).zip(&input_slots) {
                            for slot in 0..slots {
                                if random.chance(3) {
                                    held.push((Contribution { origin, slot }, 1 + random.next() % 3));
                                }
                            }
                        }
                        if random.chance(4) { None } else { Some(held) }
                    })
                })
                .collect();
            CollectiveKind::Custom(CustomCollective { input_slots, output })
        }
    };
    in_place &= kind.has_in_place_form();
    let dtype = random.pick(&DataType::ALL);
    Collective::new(CollectiveSpec {
        kind,
        ranks,
        operator: random.pick(&ReduceOperator::ALL),
        dtype,
        buffer_size: Bytes((random.next() >> 24) * dtype.bytes()),
        in_place,
        input_writable: random.chance(3),
    })
    .unwrap()
}

/// Every pair of duplex ports in a random matching, in both directions.
fn matching(random: &mut Random, ports: usize) -> Configuration {
    let order = random.permutation(ports);
    let mut circuits = Vec::new();
    for pair in order.chunks_exact(2) {
        if !random.chance(3) {
            let (a, b) = (PortId::from(pair[0]), PortId::from(pair[1]));
            circuits.extend([Circuit { from: a, to: b }, Circuit { from: b, to: a }]);
        }
    }
    Configuration::new(circuits)
}

fn problem(random: &mut Random) -> Problem {
    let mut builder = TopologyBuilder::new(random.name());
    let nodes = 2 + random.below(6);
    let rate = |random: &mut Random| if random.chance(4) { Some(random.rate()) } else { None };
    for index in 0..nodes {
        let node = Node {
            name: format!("{}{index}", random.name()),
            kind: if index < 2 || random.chance(2) { NodeKind::Compute } else { NodeKind::Switch },
            forwards: random.chance(2),
            multicasts: random.chance(3),
            reduces: random.chance(3),
            injection: rate(random),
            ejection: rate(random),
            throughput: rate(random),
        };
        builder.node(node);
    }
    for _ in 0..1 + random.below(12) {
        let src = random.below(nodes);
        let dst = (src + 1 + random.below(nodes - 1)) % nodes;
        let (capacity, latency) = (random.rate(), random.delay());
        let up = !random.chance(5);
        builder.links.push(Link { src: NodeId::new(src), dst: NodeId::new(dst), capacity, latency, up });
    }
    let links = builder.links.len();
    for index in 0..random.below(3) {
        let medium = Medium {
            name: format!("bus{index}"),
            capacity: random.rate(),
            links: random.list(4, |random| LinkId::new(random.below(links))),
        };
        builder.medium(medium);
    }
    let mut circuits = Vec::new();
    for index in 0..random.below(3) {
        let directions = random.chance(2);
        let ports: Vec<Port> = (0..2 + random.below(4))
            .map(|port| Port {
                node: NodeId::new(random.below(nodes)),
                direction: match (directions, port % 2) {
                    (true, _) => PortDirection::Duplex,
                    (false, 0) => PortDirection::Tx,
                    (false, _) => PortDirection::Rx,
                },
                capacity: random.rate(),
                latency: random.delay(),
            })
            .collect();
        let one_way = || Configuration::new(vec![Circuit { from: PortId::new(0), to: PortId::new(1) }]);
        let configurations: Vec<Configuration> = if directions {
            (0..2).map(|_| matching(random, ports.len())).collect()
        } else {
            vec![one_way(), Configuration::default()]
        };
        circuits.push(configurations[0].clone());
        let legal = match random.below(3) {
            0 => LegalConfigurations::AnyMatching,
            1 => {
                let mut list: Vec<Circuit> = configurations.iter().flat_map(|c| c.circuits()).copied().collect();
                list.sort_unstable();
                list.dedup();
                LegalConfigurations::Only { circuits: list }
            }
            _ => LegalConfigurations::Cycle { configurations },
        };
        let device = Device { name: format!("ocs{index}"), ports, reconfiguration_delay: random.delay(), legal };
        builder.device(device);
    }
    let topology = builder.finish().unwrap();
    let mut placement: Vec<NodeId> = topology.compute_nodes().collect();
    placement.rotate_left(random.below(2));
    let ranks = placement.len();
    let groups = random.list(4, |random| {
        let mut members: Vec<RankId> = random.permutation(ranks).into_iter().map(RankId::from).collect();
        members.truncate(1 + random.below(ranks));
        (collective(random, u32::try_from(members.len()).unwrap()), members)
    });
    let cost = CostModel {
        startup: random.delay(),
        reduce_cost: if random.chance(2) {
            PerByte::inverse_of(random.rate())
        } else {
            PerByte::from_femtoseconds(random.next() >> 30)
        },
        copy_cost: PerByte::inverse_of(random.rate()),
        synchronisation: random.delay(),
        overlap_reconfiguration: random.chance(2),
    };
    Problem::new(ProblemSpec { topology: Arc::new(topology), placement, circuits, groups, cost }).unwrap()
}

/// A schedule that is well formed and otherwise nonsense: everything that the IR can hold occurs.
fn schedule(random: &mut Random, problem: &Problem) -> Schedule {
    let topology = problem.topology();
    let (ranks, groups) = (problem.rank_count(), problem.groups().len());
    let hop = |random: &mut Random| {
        if !topology.devices().is_empty() && random.chance(3) {
            let device = random.below(topology.devices().len());
            let ports = topology.devices()[device].ports.len();
            let circuit = Circuit { from: PortId::new(random.below(ports)), to: PortId::new(random.below(ports)) };
            Hop::Circuit(DeviceId::new(device), circuit)
        } else {
            Hop::Link(LinkId::new(random.below(topology.links().len())))
        }
    };
    let mut paths = Paths::default();
    for _ in 0..random.below(6) {
        let parts = match random.below(3) {
            0 => vec![RoutePart { weight: Ratio::new(1, 2), hops: random.list(4, hop) }],
            1 => (1..4).map(|w| RoutePart { weight: Ratio::new(w, 6), hops: random.list(4, hop) }).collect(),
            _ => Route::single(random.list(4, hop)).parts,
        };
        paths.intern(Route { parts });
    }
    for _ in 0..random.below(4) {
        let leaves = random.list(4, |random| RankId::new(random.below(ranks)));
        paths.intern_tree(Tree { hops: random.list(5, hop), leaves });
    }
    let (routes, trees) = (paths.routes().len(), paths.trees().len());
    let generators: Vec<Generator> = random.list(3, |random| Generator {
        ranks: random.permutation(ranks).into_iter().map(RankId::from).collect(),
        slots: (0..groups).map(|_| [0, 1, 2].map(|n| random.permutation(n))).collect(),
        routes: random.permutation(routes).into_iter().map(RouteId::from).collect(),
        trees: random.permutation(trees).into_iter().map(TreeId::from).collect(),
    });
    let flow = |random: &mut Random| {
        let kind = match random.below(4) {
            1 if routes != 0 => PathKind::Route(RouteId::new(random.below(routes))),
            2 if trees != 0 => PathKind::Multicast(TreeId::new(random.below(trees))),
            3 if trees != 0 => PathKind::Aggregate(TreeId::new(random.below(trees))),
            _ => PathKind::Local,
        };
        Flow {
            src: RankId::new(random.below(ranks)),
            dst: RankId::new(random.below(ranks)),
            src_place: random.place(),
            dst_place: random.place(),
            count: 1 + random.number(100),
            path: Path::new(kind),
            group: GroupId::new(random.below(groups)),
            op: random.pick(&[FlowOp::Copy, FlowOp::Reduce]),
        }
    };
    let configuration = |device: usize, random: &mut Random| {
        let ports = topology.devices()[device].ports.len();
        matching(random, ports)
    };
    let devices = topology.devices().len();
    let steps: Vec<Step> = random.list(4, |random| Step {
        reconfigure: (0..devices)
            .filter(|_| random.chance(2))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|d| (DeviceId::new(d), configuration(d, random)))
            .collect(),
        flows: if groups == 0 {
            FlowSet::default()
        } else if random.chance(3) {
            FlowSet::Orbits {
                representatives: random.list(3, flow),
                generators: if generators.is_empty() {
                    Vec::new()
                } else {
                    random.list(3, |random| GeneratorId::new(random.below(generators.len())))
                },
            }
        } else {
            FlowSet::Rows(random.list(6, flow))
        },
    });
    let mut schedule = Schedule {
        algorithm: random.name(),
        chunks: (0..groups).map(|_| 1 + random.number(5)).collect(),
        scratch: vec![Scratch::default(); groups],
        paths,
        generators,
        steps,
        dependencies: None,
        leaves_circuits: (0..devices).map(|d| configuration(d, random)).collect(),
    };
    for (scratch, group) in schedule.scratch.iter_mut().zip(problem.groups()) {
        if random.chance(2) {
            let n = group.ranks().len();
            scratch.like = (0..n)
                .map(|_| {
                    random.list(4, |random| {
                        let buffer = random.pick(&[Buffer::Input, Buffer::Output]);
                        (random.number(n), Place::new(buffer, random.number(9)))
                    })
                })
                .collect();
        }
    }
    let flows = schedule.flow_count();
    if random.chance(2) {
        let pairs = if flows == 0 {
            Vec::new()
        } else {
            random.list(5, |random| (FlowId::new(random.below(flows)), FlowId::new(random.below(flows))))
        };
        schedule.dependencies = Some(Dependencies { pairs });
    }
    schedule
}

fn operation(random: &mut Random, ranks: usize, threadblocks: usize, operations: usize, depth: usize) -> Operation {
    let rank = |random: &mut Random| RankId::new(random.below(ranks));
    let connection = |random: &mut Random| {
        let peer = RankId::new(random.below(ranks));
        if random.chance(2) { None } else { Some(Connection { peer, channel: random.number(3) }) }
    };
    let place = |random: &mut Random| if random.chance(2) { None } else { Some(random.place()) };
    let remote = |random: &mut Random| (RankId::new(random.below(ranks)), random.place());
    let op = random.pick(&[FlowOp::Copy, FlowOp::Reduce]);
    let count = 1 + random.number(9);
    let kind = match random.below(if depth < 3 { 9 } else { 8 }) {
        0 => OperationKind::Nop,
        1 => OperationKind::Move {
            receive: connection(random),
            local: place(random),
            store: place(random),
            send: connection(random),
            count,
        },
        2 => OperationKind::Reduce { sources: random.list(4, Random::place), dst: random.place(), count },
        3 => OperationKind::Put { src: random.place(), to: random.list(4, remote), op, count },
        4 => OperationKind::Get { from: random.list(4, remote), dst: random.place(), op, count },
        5 => OperationKind::Signal { peer: rank(random), counter: random.number(9) },
        6 => OperationKind::Wait {
            counter: random.number(9),
            value: random.next(),
            stride: if random.chance(2) { 0 } else { random.next() },
        },
        7 => OperationKind::Barrier {
            barrier: random.number(4),
            threadblocks: random.list(3, |random| random.number(threadblocks)),
        },
        _ => OperationKind::Loop {
            times: random.number(100),
            body: random.list(4, |random| operation(random, ranks, threadblocks, operations, depth + 1)),
        },
    };
    let waits_for = random.list(3, |random| OperationRef {
        threadblock: random.number(threadblocks),
        operation: random.number(operations),
    });
    Operation { kind, waits_for, publishes: random.chance(2), span: SourceSpan::default() }
}

fn program(random: &mut Random) -> Plan {
    let ranks = 1 + random.below(4);
    let collective = collective(random, u32::try_from(ranks).unwrap());
    let chunks = 1 + random.number(4);
    let ranks = (0..ranks)
        .map(|_| {
            let (threadblocks, operations) = (1 + random.below(3), 1 + random.below(6));
            RankProgram {
                scratch_slots: random.number(3),
                threadblocks: (0..threadblocks)
                    .map(|_| Threadblock {
                        id: random.number(9),
                        operations: (0..operations)
                            .map(|_| operation(random, ranks, threadblocks, operations, 0))
                            .collect(),
                        span: SourceSpan::default(),
                    })
                    .collect(),
                span: SourceSpan::default(),
            }
        })
        .collect();
    let program = Program {
        name: random.name(),
        chunks: if random.chance(3) { chunks + 1 } else { chunks },
        fifo_depth: random.number(9),
        ranks,
    };
    Plan::Program { claim: ProgramHeader { collective, chunks }, program }
}

fn plan(seed: u64) -> Plan {
    let mut random = Random(seed);
    if seed % 2 == 1 {
        return program(&mut random);
    }
    let problem = problem(&mut random);
    let schedule = schedule(&mut random, &problem);
    let claimed = random.chance(2).then(|| Claimed {
        time: random.chance(2).then(|| random.time()),
        steps: random.list(3, Random::time),
        checks: random.list(3, Random::name),
    });
    Plan::Schedule { problem: Arc::new(problem), schedule, claimed }
}

/// The program without places in a file, and all of them in order.
fn without_spans(plan: &Plan) -> (Plan, Vec<SourceSpan>) {
    fn clear(operations: &mut [Operation], spans: &mut Vec<SourceSpan>) {
        for operation in operations {
            spans.push(std::mem::take(&mut operation.span));
            if let OperationKind::Loop { body, .. } = &mut operation.kind {
                clear(body, spans);
            }
        }
    }
    let mut plan = plan.clone();
    let mut spans = Vec::new();
    if let Plan::Program { program, .. } = &mut plan {
        for rank in &mut program.ranks {
            spans.push(std::mem::take(&mut rank.span));
            for tb in &mut rank.threadblocks {
                spans.push(std::mem::take(&mut tb.span));
                clear(&mut tb.operations, &mut spans);
            }
        }
    }
    (plan, spans)
}

fn text_of(plan: &Plan) -> String {
    to_text(plan.as_ref()).unwrap()
}

#[track_caller]
fn read(text: &str) -> Plan {
    parse("plan.json", text.as_bytes()).unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"))
}

#[test]
fn what_was_written_reads_back_the_same() {
    for seed in 0..600 {
        let plan = plan(seed);
        let text = text_of(&plan);
        let back = read(&text);
        let (bare, spans) = without_spans(&back);
        assert_eq!(bare, plan, "seed {seed}\n{text}");
        if let (Plan::Schedule { schedule: a, .. }, Plan::Schedule { schedule: b, .. }) = (&plan, &bare) {
            assert!(a.paths.routes().eq(b.paths.routes()), "seed {seed}: order of routes");
            assert!(a.paths.trees().eq(b.paths.trees()), "seed {seed}: order of trees");
        }
        assert_eq!(text_of(&back), text, "seed {seed}");
        assert!(spans.is_sorted(), "seed {seed}: {spans:?}");
        let lines: Vec<&str> = text.lines().collect();
        for span in spans {
            let line = lines[span.line as usize - 1];
            assert_eq!(line.as_bytes()[span.column as usize - 1], b'{', "seed {seed}, {span:?}: {line}");
        }
    }
}

#[test]
fn the_writer_gets_what_the_text_holds_and_it_ends_with_a_line_feed() {
    for seed in 0..50 {
        let plan = plan(seed);
        let mut bytes = Vec::new();
        emit(plan.as_ref(), &mut bytes).unwrap();
        assert_eq!(bytes, text_of(&plan).into_bytes());
        assert!(bytes.ends_with(b"\n}\n"));
        assert!(looks_like_plan(&bytes));
    }
}

#[test]
fn the_layout_is_this() {
    // The example is written by hand; its description is for people and is not kept.
    let example = include_str!("../testdata/example.json");
    let expected: String =
        example.lines().filter(|line| !line.contains("description")).map(|l| format!("{l}\n")).collect();
    assert_eq!(text_of(&read(example)), expected);
}

/// Plan files by hand, by name: the good ones, then the bad ones.
fn fixtures() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/plans");
    let mut files: Vec<_> = [folder.to_owned(), format!("{folder}/bad")]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files.iter().map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn plans_written_by_hand_are_read_and_written_again() {
    let fixtures = fixtures();
    assert_eq!(fixtures.len(), 16);
    for (name, text) in fixtures {
        let plan = read(&text);
        let written = text_of(&plan);
        assert_eq!(without_spans(&read(&written)).0, without_spans(&plan).0, "{name}");
        let shown: String =
            text.lines().filter(|line| !line.contains("\"description\"")).map(|l| format!("{l}\n")).collect();
        assert_eq!(written, shown, "{name}");
    }
}
