//! Random small schedules against a replay that is slow and obviously right.
#![allow(clippy::unwrap_used)] // A test that cannot build its world fails.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use common::{Builder, doubling, problem, ring, spec, verify};
use proptest::prelude::*;
use proptest::test_runner::Config;
use rondo_ir::collective::{Buffer, CollectiveKind, Contribution, Layout, Place, ReduceOperator};
use rondo_ir::index::{FlowId, GroupId, StepId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Dependencies, Flow, FlowOp, PathKind, Schedule, Scratch};
use rondo_verify::{Answer, Outcome};

type Value = BTreeMap<Contribution, u64>;
type State = HashMap<(u32, Place), Value>;

/// What the definition says about a schedule whose form is good, one sentence of it after the other.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    Conflict,
    Undefined,
    Incomplete,
}

fn sources(schedule: &Schedule, flow: &Flow) -> Vec<u32> {
    match flow.path.kind() {
        PathKind::Aggregate(tree) => schedule.paths.get_tree(tree).unwrap().leaves.iter().map(|r| r.number()).collect(),
        _ => vec![flow.src.number()],
    }
}

fn targets(schedule: &Schedule, flow: &Flow) -> Vec<u32> {
    match flow.path.kind() {
        PathKind::Multicast(tree) => schedule.paths.get_tree(tree).unwrap().leaves.iter().map(|r| r.number()).collect(),
        _ => vec![flow.dst.number()],
    }
}

fn plus(a: &Value, b: &Value) -> Value {
    let mut sum = a.clone();
    for (key, count) in b {
        *sum.entry(*key).or_default() += count;
    }
    sum
}

fn oracle(problem: &Problem, schedule: &Schedule) -> Verdict {
    let layout: Layout<'_> = problem.layout(GroupId::new(0), schedule.chunks[0]).unwrap();
    let mut state = State::new();
    layout.precondition(|position, place, contribution| {
        state.insert((position, place), Value::from([(contribution, 1)]));
    });
    for index in 0..schedule.steps.len() {
        let mut writes: HashMap<(u32, Place), Vec<(FlowOp, Value)>> = HashMap::new();
        for flow in schedule.flows(StepId::new(index)) {
            for i in 0..flow.count {
                let mut value = Value::new();
                for src in sources(schedule, &flow) {
                    let place = layout.canonical(src, flow.src_place.offset(i));
                    match state.get(&(src, place)) {
                        None => return Verdict::Undefined,
                        Some(held) => value = plus(&value, held),
                    }
                }
                for dst in targets(schedule, &flow) {
                    let place = layout.canonical(dst, flow.dst_place.offset(i));
                    if !layout.writable(place) {
                        return Verdict::Conflict;
                    }
                    writes.entry((dst, place)).or_default().push((flow.op, value.clone()));
                }
            }
        }
        let mut next = state.clone();
        for (place, list) in writes {
            let copies = list.iter().filter(|(op, _)| *op == FlowOp::Copy).count();
            if copies != 0 && list.len() != 1 {
                return Verdict::Conflict;
            }
            if copies == 1 {
                next.insert(place, list[0].1.clone());
                continue;
            }
            let Some(mut sum) = state.get(&place).cloned() else { return Verdict::Undefined };
            for (_, value) in &list {
                sum = plus(&sum, value);
            }
            next.insert(place, sum);
        }
        state = next;
    }
    let once = |value: &Value| -> Value {
        if layout.collective().operator().is_idempotent() {
            value.keys().map(|&key| (key, 1)).collect()
        } else {
            value.clone()
        }
    };
    for position in 0..layout.collective().ranks() {
        for slot in 0..layout.slots(position, Buffer::Output) {
            let Some(due) = layout.postcondition(position, slot) else { continue };
            let due: Value = due.to_multiset(layout.collective().ranks()).into_iter().collect();
            let held = state.get(&(position, layout.canonical(position, Place::output(slot))));
            if held.is_none_or(|held| once(held) != once(&due)) {
                return Verdict::Incomplete;
            }
        }
    }
    Verdict::Right
}

/// What `verify` says, in the oracle's words; several faults may be found, the oracle stops at the first step with one.
fn judged(outcome: &Outcome<Schedule>) -> Vec<Verdict> {
    let of = |name: &str| outcome.checks.iter().find(|c| c.name == name).unwrap().answer;
    assert_eq!(of("well-formed"), Answer::Proved, "{:#?}", outcome.findings);
    assert_eq!(of("circuits"), Answer::Proved);
    let mut list = Vec::new();
    for (name, verdict) in [
        ("no-conflict", Verdict::Conflict),
        ("no-undefined-read", Verdict::Undefined),
        ("completes", Verdict::Incomplete),
    ] {
        if of(name) == Answer::Refuted {
            list.push(verdict);
        }
    }
    if outcome.verified.is_some() {
        assert_eq!(of("completes"), Answer::Proved);
        assert!(outcome.findings.is_empty());
        list.push(Verdict::Right);
    }
    list
}

fn agree(problem: &Arc<Problem>, schedule: &Schedule) -> Verdict {
    let due = oracle(problem, schedule);
    let outcome = verify(problem, schedule);
    let given = judged(&outcome);
    assert!(given.contains(&due), "oracle {due:?}, verify {given:?}: {:#?}\n{schedule:#?}", outcome.findings);
    if due == Verdict::Right || due == Verdict::Incomplete {
        assert_eq!(given.len(), 1, "oracle {due:?}, verify {given:?}: {:#?}", outcome.findings);
    }
    due
}

#[derive(Clone, Debug)]
struct World {
    kind: usize,
    n: u32,
    k: u32,
    elements: u64,
    in_place: bool,
    writable: bool,
    operator: ReduceOperator,
    /// Seeds of flows, by step.
    steps: Vec<Vec<[u32; 6]>>,
}

fn world() -> impl Strategy<Value = World> {
    let operator = prop::sample::select(vec![ReduceOperator::Sum, ReduceOperator::Max]);
    let flow = prop::array::uniform6(0_u32..1000);
    let steps = prop::collection::vec(prop::collection::vec(flow, 0..4), 0..5);
    (0_usize..10, 1_u32..5, 1_u32..4, prop::sample::select(vec![0_u64, 5, 24]), any::<[bool; 2]>(), operator, steps)
        .prop_map(|(kind, n, k, elements, [in_place, writable], operator, steps)| World {
            kind,
            n,
            k,
            elements,
            in_place,
            writable,
            operator,
            steps,
        })
}

impl World {
    fn problem(&self) -> Arc<Problem> {
        let n = self.n;
        let root = self.elements as u32 % n;
        let kind = match self.kind {
            0 => CollectiveKind::AllReduce,
            1 => CollectiveKind::AllGather,
            2 => CollectiveKind::ReduceScatter,
            3 => CollectiveKind::AllToAll { matrix: None },
            4 => CollectiveKind::Broadcast { root },
            5 => CollectiveKind::Reduce { root },
            6 => CollectiveKind::Gather { root },
            7 => CollectiveKind::Scatter { root },
            8 => CollectiveKind::SendReceive { targets: (0..n).map(|p| (p != root).then_some((p + 1) % n)).collect() },
            // Free and odd conditions: twice the own slot, or anything.
            _ => CollectiveKind::Custom(rondo_ir::collective::CustomCollective {
                input_slots: vec![2; n as usize],
                output: (0..n)
                    .map(|p| {
                        let c = |origin, slot| Contribution { origin, slot };
                        vec![None, Some(vec![(c(p, 0), 1), (c((p + 1) % n, 1), 2)]), Some(vec![(c((p + 1) % n, 0), 1)])]
                    })
                    .collect(),
            }),
        };
        let in_place = self.in_place && kind.has_in_place_form();
        let mut spec = spec(kind, n, self.elements, in_place);
        spec.operator = self.operator;
        spec.input_writable = self.writable;
        problem(spec)
    }

    fn scratch(&self, problem: &Problem) -> Scratch {
        let layout = problem.layout(GroupId::new(0), self.k).unwrap();
        let like = |position: u32| {
            let places =
                [Buffer::Input, Buffer::Output].into_iter().flat_map(|b| (0..3).map(move |s| Place::new(b, s)));
            places.filter(|&p| layout.contains(position, p)).map(|p| (position, p)).collect()
        };
        Scratch { like: (0..self.n).map(like).collect() }
    }

    /// A schedule of good form: what a seed asks for is bent until ranges exist; flows whose sizes differ are left out.
    fn schedule(&self, problem: &Problem) -> Schedule {
        let mut b = Builder::new(problem, self.k);
        b.schedule.scratch = vec![self.scratch(problem)];
        let layout = problem.layout(GroupId::new(0), self.k).unwrap();
        let scratch = b.schedule.scratch[0].clone();
        let slots = |position: u32, buffer: Buffer| -> u32 {
            if buffer == Buffer::Scratch {
                return scratch.like[position as usize].len() as u32;
            }
            (0..).find(|&slot| !layout.contains(position, Place::new(buffer, slot))).unwrap()
        };
        let size = |position: u32, place: Place| {
            if place.buffer() == Buffer::Scratch {
                let (like, place) = scratch.like[position as usize][place.slot() as usize];
                layout.elements(like, place)
            } else {
                layout.elements(position, place)
            }
        };
        for step in &self.steps {
            let mut flows = Vec::new();
            for &[src, dst, from, to, count, form] in step {
                let (src, dst) = (src % self.n, dst % self.n);
                let buffer = |seed: u32| Buffer::ALL[seed as usize % 3];
                let (from_buffer, to_buffer) = (buffer(from), buffer(to));
                let (has, takes) = (slots(src, from_buffer), slots(dst, to_buffer));
                if has == 0 || takes == 0 {
                    continue;
                }
                let count = 1 + count % has.min(takes);
                let from = Place::new(from_buffer, from / 3 % (has - count + 1));
                let to = Place::new(to_buffer, to / 3 % (takes - count + 1));
                let op = if form % 2 == 0 { FlowOp::Copy } else { FlowOp::Reduce };
                let others =
                    |not: u32| -> Vec<u32> { (0..self.n).filter(|&r| r != not && (r + form) % 3 != 0).collect() };
                let exists = |r: u32, place: Place| place.slot() + count <= slots(r, place.buffer());
                let fits = |a: u32, b: u32| (0..count).all(|i| size(a, from.offset(i)) == size(b, to.offset(i)));
                match form / 2 % 5 {
                    0 => {
                        let leaves = others(src);
                        if !leaves.is_empty() && leaves.iter().all(|&r| exists(r, to) && fits(src, r)) {
                            flows.push(b.multicast((src, from), &leaves, to, count, op));
                        }
                    }
                    1 => {
                        let leaves = others(dst);
                        if !leaves.is_empty() && leaves.iter().all(|&r| exists(r, from) && fits(r, dst)) {
                            flows.push(b.aggregate(&leaves, from, (dst, to), count, op));
                        }
                    }
                    _ => {
                        if fits(src, dst) {
                            flows.push(b.flow((src, from), (dst, to), count, op));
                        }
                    }
                }
            }
            b.step(flows);
        }
        b.schedule
    }
}

proptest! {
    #![proptest_config(Config::with_cases(4000))]

    #[test]
    fn random_schedules(world in world()) {
        let problem = world.problem();
        agree(&problem, &world.schedule(&problem));
    }
}

/// Changes one thing; the form stays good.
fn mutate(schedule: &mut Schedule, seed: [usize; 4]) -> bool {
    let [what, step, flow, by] = seed;
    if schedule.steps.is_empty() {
        return false;
    }
    let count = schedule.steps.len();
    let step = step % count;
    let k = schedule.chunks[0];
    if what % 7 == 0 {
        schedule.steps.swap(step, by % count);
        return true;
    }
    let rondo_ir::schedule::FlowSet::Rows(rows) = &mut schedule.steps[step].flows else { return false };
    if rows.is_empty() {
        return false;
    }
    let at = flow % rows.len();
    let shift = |place: Place, count: u32| Place::output((place.slot() + 1 + by as u32) % (k - count + 1));
    match what % 7 {
        1 => {
            rows.remove(at);
        }
        2 => {
            let again = rows[at];
            rows.push(again);
        }
        3 => rows[at].src_place = shift(rows[at].src_place, rows[at].count),
        4 => rows[at].dst_place = shift(rows[at].dst_place, rows[at].count),
        5 => rows[at].op = if rows[at].op == FlowOp::Copy { FlowOp::Reduce } else { FlowOp::Copy },
        _ => {
            if rows[at].count == 1 {
                rows[at].src_place = shift(rows[at].src_place, 1);
                rows[at].dst_place = rows[at].src_place;
            } else {
                rows[at].count -= 1;
            }
        }
    }
    true
}

proptest! {
    #![proptest_config(Config::with_cases(1500))]

    /// One or two changes to good schedules: refuted, unless the oracle says that the result is right all the same.
    #[test]
    fn mutants(n in 1_u32..7, log in 0_u32..4, k in 1_u32..4, rings: bool, changes in prop::collection::vec(any::<[usize; 4]>(), 0..3)) {
        let n = if rings { n } else { 1 << log };
        let slots = if rings { n } else { k };
        let problem = problem(spec(CollectiveKind::AllReduce, n, u64::from(slots) * 3, true));
        let mut schedule = if rings { ring(&problem) } else { doubling(&problem, k) };
        prop_assert_eq!(agree(&problem, &schedule), Verdict::Right);
        let mut changed = schedule.clone();
        for change in changes {
            let change = change.map(|x| x % 1000);
            mutate(&mut changed, change);
        }
        agree(&problem, &changed);
        // One flow less never completes.
        if let Some(rondo_ir::schedule::FlowSet::Rows(rows)) = schedule.steps.first_mut().map(|s| &mut s.flows) {
            rows.pop();
            prop_assert_eq!(agree(&problem, &schedule), Verdict::Incomplete);
        }
    }

    /// With dependencies: all orders by brute force, against the partial order.
    #[test]
    fn orders(n in 2_u32..4, seeds in prop::collection::vec(prop::array::uniform5(0_u32..100), 1..6), edges in any::<u32>()) {
        let problem = problem(spec(CollectiveKind::AllReduce, n, 4, true));
        let mut b = Builder::new(&problem, 2);
        let flows: Vec<Flow> = seeds
            .iter()
            .map(|&[src, dst, from, to, form]| {
                let op = if form % 3 == 0 { FlowOp::Copy } else { FlowOp::Reduce };
                b.flow((src % n, Place::output(from % 2)), (dst % n, Place::output(to % 2)), 1, op)
            })
            .collect();
        let mut bit = 0;
        let mut pairs = Vec::new();
        for i in 0..flows.len() {
            for j in i + 1..flows.len() {
                if edges >> (bit % 32) & 1 == 1 {
                    pairs.push((FlowId::new(i), FlowId::new(j)));
                }
                bit += 1;
            }
        }
        b.step(flows.clone());
        b.schedule.dependencies = Some(Dependencies { pairs: pairs.clone() });
        let m = flows.len();
        let mut before = vec![vec![false; m]; m];
        for &(i, j) in &pairs {
            before[i.index()][j.index()] = true;
        }
        for x in 0..m {
            for i in 0..m {
                for j in 0..m {
                    before[i][j] |= before[i][x] && before[x][j];
                }
            }
        }
        let touches = |f: &Flow| ((f.src, f.src_place), (f.dst, f.dst_place));
        let conflict = |a: &Flow, b: &Flow| {
            let ((ra, wa), (rb, wb)) = (touches(a), touches(b));
            wa == wb || wa == rb || ra == wb
        };
        let ordered = (0..m).all(|i| (i + 1..m).all(|j| !conflict(&flows[i], &flows[j]) || before[i][j]));
        let outcome = verify(&problem, &b.schedule);
        let answer = outcome.checks.iter().find(|c| c.name == "ordered").unwrap().answer;
        prop_assert_eq!(answer == Answer::Proved, ordered, "{:#?}", outcome.findings);
        // In flow order, each flow a step of its own.
        let mut steps = b.schedule.clone();
        steps.dependencies = None;
        steps.steps = flows.iter().map(|&f| rondo_ir::schedule::Step::new(vec![f])).collect();
        let due = oracle(&problem, &steps);
        prop_assert_eq!(outcome.verified.is_some(), ordered && due == Verdict::Right);
    }
}
