//! Lowered programs are run by a small interpreter, transfer by transfer in many orders, and must end in the state
//! that a replay of the schedule, written from its definition, gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_ir::collective::{Buffer, Collective, CollectiveKind, CollectiveSpec, DataType, Place, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::index::{GroupId, RankId, StepId};
use rondo_ir::problem::Problem;
use rondo_ir::profile::{Protocol, RuntimeProfile};
use rondo_ir::program::{Connection, Operation, OperationKind, Program};
use rondo_ir::schedule::{Dependencies, Flow, FlowOp, Route, Schedule, Scratch, Step, Tree};
use rondo_ir::topology::{Hop, Node, Topology, TopologyBuilder};
use rondo_ir::units::{Bytes, Delay, Rate};

use super::{LowerError, LowerOptions, Lowered, lower};

// ---------------------------------------------------------------------------------------------------------------------
// Problems and schedules

fn mesh(n: u32) -> Topology {
    let mut builder = TopologyBuilder::new("mesh");
    let nodes: Vec<_> = (0..n).map(|r| builder.node(Node::compute(format!("gpu{r}")))).collect();
    let rate = Rate::new(1_000_000_000).unwrap();
    for &src in &nodes {
        for &dst in &nodes {
            if src != dst {
                builder.link(src, dst, rate, Delay::ZERO);
            }
        }
    }
    builder.finish().unwrap()
}

fn problem(kind: CollectiveKind, n: u32, in_place: bool) -> Problem {
    let collective = Collective::new(CollectiveSpec {
        kind,
        ranks: n,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(1 << 20),
        in_place,
        input_writable: false,
    })
    .unwrap();
    Problem::single(Arc::new(mesh(n)), collective, CostModel::FREE).unwrap()
}

/// Builds schedules over a full mesh.
struct Writer<'a> {
    problem: &'a Problem,
    schedule: Schedule,
    flows: Vec<Flow>,
}

impl<'a> Writer<'a> {
    fn new(problem: &'a Problem, chunks: u32, scratch: u32) -> Self {
        let mut schedule = Schedule::new("test", problem, vec![chunks]);
        schedule.scratch[0] =
            Scratch { like: vec![vec![(0, Place::output(0)); scratch as usize]; problem.rank_count()] };
        Self { problem, schedule, flows: Vec::new() }
    }

    fn flow(&mut self, src: u32, src_place: Place, dst: u32, dst_place: Place, count: u32, op: FlowOp) {
        let (src, dst) = (RankId::from(src), RankId::from(dst));
        if src == dst {
            self.flows.push(Flow::local(src, src_place, dst_place, count, op));
            return;
        }
        let topology = self.problem.topology();
        let (from, to) = (self.problem.node_of(src), self.problem.node_of(dst));
        let link = topology.links_from(from).iter().copied().find(|&l| topology.link(l).dst == to).unwrap();
        let route = self.schedule.paths.intern(Route::single(vec![Hop::Link(link)]));
        self.flows.push(Flow::unicast((src, src_place), (dst, dst_place), count, op, route));
    }

    fn end_step(&mut self) {
        self.schedule.steps.push(Step::new(std::mem::take(&mut self.flows)));
    }
}

fn ring_all_reduce(n: u32, per_block: u32) -> (Problem, Schedule) {
    let problem = problem(CollectiveKind::AllReduce, n, true);
    let mut w = Writer::new(&problem, n * per_block, 0);
    for round in 0..2 * (n - 1) {
        for r in 0..n {
            let op = if round < n - 1 { FlowOp::Reduce } else { FlowOp::Copy };
            let block = (r + 2 * n - round) % n;
            for j in 0..per_block {
                let place = Place::output(block * per_block + j);
                w.flow(r, place, (r + 1) % n, place, 1, op);
            }
        }
        w.end_step();
    }
    let schedule = w.schedule;
    (problem, schedule)
}

fn ring_all_gather(n: u32, k: u32, in_place: bool) -> (Problem, Schedule) {
    let problem = problem(CollectiveKind::AllGather, n, in_place);
    let mut w = Writer::new(&problem, k, 0);
    for round in 0..n - 1 {
        for r in 0..n {
            let block = (r + n - round) % n;
            let dst = Place::output(block * k);
            let src = if round == 0 { Place::input(0) } else { dst };
            w.flow(r, src, (r + 1) % n, dst, k, FlowOp::Copy);
            if round == 0 && !in_place {
                w.flow(r, src, r, dst, k, FlowOp::Copy);
            }
        }
        w.end_step();
    }
    let schedule = w.schedule;
    (problem, schedule)
}

/// Whole vectors, in place: all ranks exchange everything in each step.
fn recursive_doubling(n: u32, slots: u32) -> (Problem, Schedule) {
    let problem = problem(CollectiveKind::AllReduce, n, true);
    let mut w = Writer::new(&problem, slots, 0);
    let mut distance = 1;
    while distance < n {
        for r in 0..n {
            w.flow(r, Place::output(0), r ^ distance, Place::output(0), slots, FlowOp::Reduce);
        }
        w.end_step();
        distance *= 2;
    }
    let schedule = w.schedule;
    (problem, schedule)
}

fn direct_all_to_all(n: u32, k: u32) -> (Problem, Schedule) {
    let problem = problem(CollectiveKind::AllToAll { matrix: None }, n, false);
    let mut w = Writer::new(&problem, k, 0);
    for src in 0..n {
        for dst in 0..n {
            w.flow(src, Place::input(dst * k), dst, Place::output(src * k), k, FlowOp::Copy);
        }
    }
    w.end_step();
    let schedule = w.schedule;
    (problem, schedule)
}

/// One step: everybody adds everything to everybody.
fn one_shot_all_reduce(n: u32, k: u32) -> (Problem, Schedule) {
    let problem = problem(CollectiveKind::AllReduce, n, true);
    let mut w = Writer::new(&problem, k, 0);
    for src in 0..n {
        for dst in 0..n {
            if src != dst {
                w.flow(src, Place::output(0), dst, Place::output(0), k, FlowOp::Reduce);
            }
        }
    }
    w.end_step();
    let schedule = w.schedule;
    (problem, schedule)
}

/// A small generator of numbers (Knuth's MMIX constants); tests name their seeds.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }
    fn number(&mut self, limit: u32) -> u32 {
        u32::try_from(self.below(limit as usize)).unwrap()
    }
}

/// Random legal steps over input and output (one buffer) and scratch: reads of defined places, one copy or any number of reduces a
/// place. Computes nothing sensible; only its meaning matters.
fn random_schedule(seed: u64) -> (Problem, Schedule) {
    let mut random = Random(seed);
    let n = 2 + random.number(3);
    let k = 1 + random.number(4);
    let scratch = random.number(3);
    let problem = problem(CollectiveKind::AllReduce, n, true);
    let mut w = Writer::new(&problem, k, scratch);
    let mut defined: Vec<Vec<bool>> = vec![(0..k + scratch).map(|i| i < k).collect(); n as usize];
    let name = |i: u32, random: &mut Random| match (i < k, random.below(2)) {
        (true, 0) => Place::input(i),
        (true, _) => Place::output(i),
        (false, _) => Place::scratch(i - k),
    };
    for _ in 0..1 + random.below(5) {
        let mut written: Vec<Vec<Option<FlowOp>>> = vec![vec![None; (k + scratch) as usize]; n as usize];
        for _ in 0..random.below(10) {
            let (src, dst) = (random.number(n), random.number(n));
            let (from, to) = (random.number(k + scratch), random.number(k + scratch));
            let op = if random.below(2) == 0 { FlowOp::Copy } else { FlowOp::Reduce };
            let target = &mut written[dst as usize][to as usize];
            let clash = target.is_some_and(|other| op == FlowOp::Copy || other == FlowOp::Copy);
            let undefined =
                !defined[src as usize][from as usize] || (op == FlowOp::Reduce && !defined[dst as usize][to as usize]);
            if clash || undefined || (src == dst && from == to && op == FlowOp::Copy) {
                continue;
            }
            *target = Some(op);
            let (from, to) = (name(from, &mut random), name(to, &mut random));
            w.flow(src, from, dst, to, 1, op);
        }
        for (defined, written) in defined.iter_mut().flatten().zip(written.iter().flatten()) {
            *defined |= written.is_some();
        }
        w.end_step();
    }
    let schedule = w.schedule;
    (problem, schedule)
}

// ---------------------------------------------------------------------------------------------------------------------
// Meaning: replay of a schedule, run of a program

type Value = Option<BTreeMap<(u32, u32), u64>>;
type State = BTreeMap<(u32, Place), Value>;

fn add(a: &Value, b: &Value) -> Value {
    let mut sum = a.clone()?;
    for (&key, &count) in b.as_ref()? {
        *sum.entry(key).or_default() += count;
    }
    Some(sum)
}

fn start(problem: &Problem, chunks: u32) -> State {
    let layout = problem.layout(GroupId::new(0), chunks).unwrap();
    let mut state = State::new();
    layout.precondition(|r, place, c| {
        state.insert((r, place), Some(BTreeMap::from([((c.origin, c.slot), 1)])));
    });
    state
}

fn read(state: &State, problem: &Problem, chunks: u32, rank: u32, place: Place) -> Value {
    let layout = problem.layout(GroupId::new(0), chunks).unwrap();
    state.get(&(rank, layout.canonical(rank, place))).cloned().flatten()
}

fn write(state: &mut State, problem: &Problem, chunks: u32, rank: u32, place: Place, value: Value) {
    let layout = problem.layout(GroupId::new(0), chunks).unwrap();
    state.insert((rank, layout.canonical(rank, place)), value);
}

/// The definition in `rondo_ir`: all flows of a step read the state from before it.
fn replay(problem: &Problem, schedule: &Schedule) -> State {
    let chunks = schedule.chunks[0];
    let mut state = start(problem, chunks);
    for step in 0..schedule.steps.len() {
        let before = state.clone();
        for flow in schedule.flows(StepId::new(step)) {
            for i in 0..flow.count {
                let (src, dst) = (flow.src.number(), flow.dst.number());
                let value = read(&before, problem, chunks, src, flow.src_place.offset(i));
                let place = flow.dst_place.offset(i);
                let value = match flow.op {
                    FlowOp::Copy => value,
                    FlowOp::Reduce => add(&read(&state, problem, chunks, dst, place), &value),
                };
                write(&mut state, problem, chunks, dst, place, value);
            }
        }
    }
    state
}

/// Runs the program one slot at a time; `pick` chooses among the threadblocks that can go on. `Err` is a deadlock.
fn run(
    problem: &Problem,
    program: &Program,
    depth: usize,
    mut pick: impl FnMut(usize) -> usize,
) -> Result<State, String> {
    let chunks = program.chunks;
    let mut state = start(problem, chunks);
    let mut queues: BTreeMap<(u32, u32, u32), std::collections::VecDeque<Value>> = BTreeMap::new();
    // (rank, threadblock) → (operation, slot)
    let mut at: Vec<(u32, usize, usize, u32)> = Vec::new();
    let mut progress: Vec<Vec<usize>> = Vec::new();
    for (r, rank) in program.ranks.iter().enumerate() {
        progress.push(vec![0; rank.threadblocks.len()]);
        at.extend((0..rank.threadblocks.len()).map(|tb| (u32::try_from(r).unwrap(), tb, 0, 0)));
    }
    let operation = |r: u32, tb: usize, op: usize| -> Option<&Operation> {
        program.ranks[r as usize].threadblocks[tb].operations.get(op)
    };
    let ends = |r: u32, receive: &Option<Connection>, send: &Option<Connection>| {
        (receive.map(|c| (c.peer.number(), r, c.channel)), send.map(|c| (r, c.peer.number(), c.channel)))
    };
    loop {
        let ready: Vec<usize> = (0..at.len())
            .filter(|&i| {
                let (r, tb, op, _) = at[i];
                let Some(op) = operation(r, tb, op) else { return false };
                let waits =
                    op.waits_for.iter().all(|w| (w.operation as usize) < progress[r as usize][w.threadblock as usize]);
                let OperationKind::Move { receive, send, .. } = &op.kind else { return waits };
                let (receive, send) = ends(r, receive, send);
                waits
                    && receive.is_none_or(|q| queues.get(&q).is_some_and(|q| !q.is_empty()))
                    && send.is_none_or(|q| queues.get(&q).is_none_or(|q| q.len() < depth))
            })
            .collect();
        if ready.is_empty() {
            break;
        }
        let chosen = ready[pick(ready.len())];
        let (r, tb, op_index, slot) = at[chosen];
        let op = operation(r, tb, op_index).unwrap();
        let count = match &op.kind {
            OperationKind::Move { receive, local, store, send, count } => {
                let (receive, send) = ends(r, receive, send);
                let mut value: Option<Value> = receive.map(|q| queues.get_mut(&q).unwrap().pop_front().unwrap());
                if let Some(place) = local {
                    let here = read(&state, problem, chunks, r, place.offset(slot));
                    value = Some(value.map_or(here.clone(), |value| add(&here, &value)));
                }
                if let Some(place) = store {
                    write(&mut state, problem, chunks, r, place.offset(slot), value.clone().unwrap());
                }
                if let Some(q) = send {
                    queues.entry(q).or_default().push_back(value.unwrap());
                }
                *count
            }
            OperationKind::Reduce { sources, dst, count } => {
                let mut value = read(&state, problem, chunks, r, dst.offset(slot));
                for source in sources {
                    value = add(&value, &read(&state, problem, chunks, r, source.offset(slot)));
                }
                write(&mut state, problem, chunks, r, dst.offset(slot), value);
                *count
            }
            other => panic!("lowering does not make {other:?}"),
        };
        at[chosen].3 += 1;
        if at[chosen].3 == count {
            if op.publishes {
                progress[r as usize][tb] = op_index + 1;
            }
            (at[chosen].2, at[chosen].3) = (op_index + 1, 0);
        }
    }
    for &(r, tb, op, slot) in &at {
        if let Some(stuck) = operation(r, tb, op) {
            return Err(format!("r{r} tb{tb} op{op} slot {slot}: {}", rondo_ir::text::operation_line(stuck)));
        }
    }
    if queues.values().any(|q| !q.is_empty()) {
        return Err("a message is left".to_owned());
    }
    Ok(state)
}

/// The schedule's own places agree after every run; staging slots are not compared.
fn check_runs(problem: &Problem, schedule: &Schedule, lowered: &Lowered, seeds: u64) {
    let expected = replay(problem, schedule);
    let own = |r: u32, place: Place| {
        place.buffer() != Buffer::Scratch || place.slot() < schedule.scratch_slots(GroupId::new(0), r)
    };
    for depth in [1, 2, 8] {
        for seed in 0..seeds {
            let mut random = Random(seed);
            let state = run(problem, &lowered.program, depth, |n| match seed {
                0 => 0,
                1 => n - 1,
                _ => random.below(n),
            });
            let state = state.unwrap_or_else(|stuck| panic!("depth {depth}, seed {seed}: {stuck}"));
            for (&(r, place), value) in &state {
                if own(r, place) {
                    assert_eq!(Some(value), expected.get(&(r, place)), "depth {depth}, seed {seed}: r{r}.{place}");
                }
            }
            assert!(expected.keys().all(|key| state.contains_key(key)), "a write is missing");
        }
    }
}

/// Every output place holds its postcondition.
fn check_complete(problem: &Problem, schedule: &Schedule) {
    let state = replay(problem, schedule);
    let layout = problem.layout(GroupId::new(0), schedule.chunks[0]).unwrap();
    for r in 0..layout.collective().ranks() {
        for slot in 0..layout.slots(r, Buffer::Output) {
            let expected = layout.postcondition(r, slot).unwrap().to_multiset(layout.collective().ranks());
            let expected: BTreeMap<_, _> = expected.iter().map(|(c, count)| ((c.origin, c.slot), *count)).collect();
            let held = read(&state, problem, schedule.chunks[0], r, Place::output(slot));
            assert_eq!(held, Some(expected), "r{r}.o[{slot}]");
        }
    }
}

fn lower_for(problem: &Problem, schedule: &Schedule, profile: &'static RuntimeProfile) -> Lowered {
    lower(problem, schedule, &LowerOptions::new(profile)).unwrap()
}

fn check(case: &(Problem, Schedule), seeds: u64) {
    let (problem, schedule) = case;
    for profile in RuntimeProfile::ALL {
        for channels in [0, 3] {
            let options = LowerOptions { profile, protocol: Protocol::Simple, channels };
            check_runs(problem, schedule, &lower(problem, schedule, &options).unwrap(), seeds);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Tests

#[test]
fn whole_vectors_exchange_without_deadlock_for_any_number_of_slots() {
    for slots in [1, 2, 3, 72, 200] {
        let case = recursive_doubling(4, slots);
        check_complete(&case.0, &case.1);
        check(&case, if slots < 10 { 6 } else { 3 });
    }
}

#[test]
fn usual_algorithms_run_in_every_order() {
    for case in [
        ring_all_reduce(4, 1),
        ring_all_reduce(3, 3),
        ring_all_gather(4, 2, true),
        ring_all_gather(4, 2, false),
        direct_all_to_all(5, 2),
        one_shot_all_reduce(4, 2),
    ] {
        check_complete(&case.0, &case.1);
        check(&case, 8);
    }
}

#[test]
fn random_steps_keep_their_meaning() {
    for seed in 0..250 {
        let (problem, schedule) = random_schedule(seed);
        for profile in [&RuntimeProfile::MSCCL, &RuntimeProfile::RCCL] {
            check_runs(&problem, &schedule, &lower_for(&problem, &schedule, profile), 5);
        }
    }
}

#[test]
fn explicit_dependencies_are_lowered_in_flow_order() {
    // A chain over three ranks in one step: with dependencies, flow 1 forwards what flow 0 has brought.
    let problem = problem(CollectiveKind::Broadcast { root: 0 }, 3, true);
    let mut w = Writer::new(&problem, 2, 0);
    for j in 0..2 {
        w.flow(0, Place::output(j), 1, Place::output(j), 1, FlowOp::Copy);
        w.flow(1, Place::output(j), 2, Place::output(j), 1, FlowOp::Copy);
    }
    w.end_step();
    let mut schedule = w.schedule;
    let id = rondo_ir::index::FlowId::new;
    schedule.dependencies = Some(Dependencies { pairs: vec![(id(0), id(1)), (id(2), id(3))] });
    let lowered = lower_for(&problem, &schedule, &RuntimeProfile::RCCL);
    for seed in 0..10 {
        let mut random = Random(seed);
        let state = run(&problem, &lowered.program, 1, |n| random.below(n)).unwrap();
        for r in 0..3 {
            for slot in 0..2 {
                assert_eq!(read(&state, &problem, 2, r, Place::output(slot)), Some(BTreeMap::from([((0, slot), 1)])));
            }
        }
    }
}

#[test]
fn steps_spread_over_channels_until_the_limits_hold() {
    // 254 steps, the first 127 of which add. On rccl that is 2 · 127 + 127 = 381 instructions of 64, but steps go round: of six
    // channels the first would have 22 receives with an addition and 21 without, 65 instructions; of seven, 19 and 18.
    let (problem, schedule) = ring_all_reduce(128, 1);
    let lowered = lower_for(&problem, &schedule, &RuntimeProfile::RCCL);
    assert_eq!((lowered.report.channels, lowered.report.instructions), (7, 2 * 19 + 18));
    assert_eq!(lowered.report.threadblocks, 14);
    let lowered = lower_for(&problem, &schedule, &RuntimeProfile::MSCCL);
    assert_eq!((lowered.report.channels, lowered.report.instructions), (1, 254));
    let state = run(&problem, &lowered.program, 2, |_| 0).unwrap();
    assert_eq!(read(&state, &problem, 128, 5, Place::output(7)).unwrap().len(), 128);

    // 39 peers are more than 32 on a channel.
    let (problem, schedule) = direct_all_to_all(40, 1);
    let lowered = lower_for(&problem, &schedule, &RuntimeProfile::MSCCL);
    assert_eq!((lowered.report.channels, lowered.report.threadblocks), (2, 79));
    let state = run(&problem, &lowered.program, 2, |_| 0).unwrap();
    assert_eq!(read(&state, &problem, 1, 5, Place::output(7)), Some(BTreeMap::from([((7, 5), 1)])));
}

#[test]
fn local_work_spreads_over_threadblocks_by_place() {
    // 4 places, 20 local additions to each: 80 instructions, of which azure allows 64 a threadblock.
    let problem = problem(CollectiveKind::AllReduce, 2, true);
    let mut w = Writer::new(&problem, 100, 0);
    w.flow(0, Place::output(99), 1, Place::output(99), 1, FlowOp::Reduce);
    w.end_step();
    for j in 0..80 {
        w.flow(0, Place::output(8 + j), 0, Place::output(2 * (j % 4)), 1, FlowOp::Reduce);
    }
    w.end_step();
    let lowered = lower_for(&problem, &w.schedule, &RuntimeProfile::AZURE);
    assert!(lowered.report.instructions <= 64, "{}", lowered.report.instructions);
    check_runs(&problem, &w.schedule, &lowered, 4);
}

#[test]
fn what_does_not_fit_is_refused_with_number_and_limit() {
    let message = |case: &(Problem, Schedule), profile| {
        let error = lower(&case.0, &case.1, &LowerOptions::new(profile)).unwrap_err();
        assert_eq!(error.diagnostic().code, "P005");
        error.to_string()
    };
    assert_eq!(
        message(&direct_all_to_all(40, 1), &RuntimeProfile::RCCL),
        "rank r0 needs 79 threadblocks; rccl allows 64"
    );
    // 80 transfers of one slot in one step on one connection: no channel can help.
    let problem = problem(CollectiveKind::AllReduce, 2, true);
    let mut w = Writer::new(&problem, 200, 0);
    for j in 0..80 {
        w.flow(0, Place::output(2 * j), 1, Place::output(2 * j), 1, FlowOp::Reduce);
    }
    w.end_step();
    assert_eq!(
        message(&(problem.clone(), w.schedule), &RuntimeProfile::AZURE),
        "rank r0 needs 80 instructions in a threadblock on 1 channels; azure allows 64 a threadblock and 32 channels"
    );
    let case = ring_all_reduce(4, 1);
    let options = LowerOptions { channels: 33, ..LowerOptions::new(&RuntimeProfile::AZURE) };
    assert_eq!(
        lower(&case.0, &case.1, &options).unwrap_err().to_string(),
        "33 channels were asked for; azure allows 32"
    );
    let lowered = lower_for(&problem, &Schedule::new("none", &problem, vec![1]), &RuntimeProfile::RCCL);
    assert_eq!(lowered.program.operation_count(), 0);
}

#[test]
fn what_a_fifo_runtime_cannot_say_is_refused_by_name() {
    let problem = problem(CollectiveKind::AllReduce, 2, true);
    let mut w = Writer::new(&problem, 1, 0);
    w.flow(0, Place::output(0), 1, Place::output(0), 1, FlowOp::Reduce);
    let tree = w.schedule.paths.intern_tree(Tree { hops: Vec::new(), leaves: vec![RankId::new(1)] });
    for (kind, expected) in [
        (rondo_ir::schedule::PathKind::Multicast(tree), "multicast"),
        (rondo_ir::schedule::PathKind::Aggregate(tree), "inside the network"),
    ] {
        let flow = Flow { path: rondo_ir::schedule::Path::new(kind), ..w.flows[0] };
        let schedule = Schedule { steps: vec![Step::new(vec![flow])], ..w.schedule.clone() };
        let error = lower(&problem, &schedule, &LowerOptions::new(&RuntimeProfile::MSCCL)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    for (flow, named) in [
        (Flow { dst: RankId::new(7), ..w.flows[0] }, "rank r7"),
        (Flow { dst_place: Place::output(1), ..w.flows[0] }, "r1.o[1]"),
        (Flow { src_place: Place::scratch(0), ..w.flows[0] }, "r0.s[0]"),
        (Flow { count: u32::MAX, ..w.flows[0] }, "r0.o[0]"),
        (Flow { group: GroupId::new(1), ..w.flows[0] }, "group g1"),
    ] {
        let schedule = Schedule { steps: vec![Step::new(vec![flow])], ..w.schedule.clone() };
        match lower(&problem, &schedule, &LowerOptions::new(&RuntimeProfile::MSCCL)) {
            Err(LowerError::Malformed { what, .. }) => assert_eq!(what, named),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn adjacent_slots_share_an_instruction_and_long_ones_are_cut() {
    let (problem, schedule) = recursive_doubling(2, 200);
    let lowered = lower_for(&problem, &schedule, &RuntimeProfile::MSCCL);
    let counts: Vec<u32> = lowered.program.ranks[0].threadblocks[0]
        .operations
        .iter()
        .filter_map(|op| match op.kind {
            OperationKind::Move { count, .. } => Some(count),
            _ => None,
        })
        .collect();
    assert_eq!(counts, [67, 67, 66]);
    // Three flows of one slot each to one peer.
    let (problem, schedule) = ring_all_reduce(3, 3);
    let lowered = lower_for(&problem, &schedule, &RuntimeProfile::MSCCL);
    assert_eq!(lowered.report.instructions, 4);
}

#[test]
fn lowering_gives_the_same_program_every_time() {
    let (problem, schedule) = one_shot_all_reduce(6, 5);
    let first = lower_for(&problem, &schedule, &RuntimeProfile::RCCL);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let second = pool.install(|| lower_for(&problem, &schedule, &RuntimeProfile::RCCL));
    assert_eq!(first, second);
}

#[test]
fn reductions_never_join_beyond_what_the_runtime_can_hold() {
    // 40 local reductions into one place in one step, and as many with alternating counts.
    let problem = problem(CollectiveKind::AllReduce, 1, true);
    let mut w = Writer::new(&problem, 90, 0);
    for j in 1..=40 {
        w.flow(0, Place::output(2 * j), 0, Place::output(0), 1, FlowOp::Reduce);
    }
    w.end_step();
    let lowered = lower_for(&problem, &w.schedule, &RuntimeProfile::MSCCL);
    let publishes: Vec<bool> =
        lowered.program.ranks[0].threadblocks[0].operations.iter().map(|op| op.publishes).collect();
    let cuts: Vec<usize> = publishes.iter().enumerate().filter(|(_, p)| **p).map(|(i, _)| i).collect();
    assert_eq!(cuts, [15, 31]);
    check_runs(&problem, &w.schedule, &lowered, 2);
}
