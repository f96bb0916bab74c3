//! Programs against schedules.

use std::sync::Arc;

use rondo_ir::collective::{Collective, CollectiveKind, Place};
use rondo_ir::cost::CostModel;
use rondo_ir::problem::Problem;
use rondo_ir::program::{MoveOp, Program};
use rondo_ir::schedule::{Flow, FlowOp, Path, Route, Schedule, Scratch, Step};
use rondo_ir::topology::{Hop, Node, TopologyBuilder};
use rondo_ir::units::{Delay, Rate};

use super::build::*;
use crate::program::{ProgramOptions, TransferReport, same_transfers, verify_program};
use crate::{Claim, Options, Verified, verify_schedule};

/// A flow from a rank's place to another's, or within a rank.
fn flow(src: (u32, Place), dst: (u32, Place), count: u32, op: FlowOp) -> Flow {
    Flow::local(rank(src.0), src.1, dst.1, count, op).to(dst.0)
}

trait To {
    fn to(self, dst: u32) -> Self;
}

impl To for Flow {
    fn to(self, dst: u32) -> Self {
        Self { dst: rank(dst), ..self }
    }
}

/// A verified schedule over direct links; each rank has this many scratch slots.
fn schedule(collective: &Collective, chunks: u32, scratch: u32, steps: Vec<Vec<Flow>>) -> Verified<Schedule> {
    let n = collective.ranks();
    let mut builder = TopologyBuilder::new("mesh");
    let nodes: Vec<_> = (0..n).map(|r| builder.node(Node::compute(format!("n{r}")))).collect();
    let rate: Rate = "1 GB/s".parse().unwrap();
    let links: Vec<Vec<_>> = nodes
        .iter()
        .map(|&a| nodes.iter().map(|&b| (a != b).then(|| builder.link(a, b, rate, Delay::ZERO))).collect())
        .collect();
    let topology = Arc::new(builder.finish().unwrap());
    let problem = Arc::new(Problem::single(topology, collective.clone(), CostModel::FREE).unwrap());
    let mut schedule = Schedule::new("by hand", &problem, vec![chunks]);
    let like = |r| (0..scratch).map(|_| (r, if n == 1 { i(0) } else { o(0) })).collect();
    schedule.scratch = vec![Scratch { like: (0..n).map(like).collect() }];
    for mut flows in steps {
        for flow in &mut flows {
            if let Some(link) = links[flow.src.index()][flow.dst.index()] {
                flow.path = Path::route(schedule.paths.intern(Route::single(vec![Hop::Link(link)])));
            }
        }
        schedule.steps.push(Step::new(flows));
    }
    let outcome = verify_schedule(problem, schedule, &Options::default());
    assert!(outcome.verified.is_some(), "{:#?}\n{:#?}", outcome.checks, outcome.findings);
    outcome.verified.unwrap()
}

fn verified(collective: &Collective, chunks: u32, program: Program) -> Verified<Program> {
    let claim = Claim { collective: collective.clone(), chunks };
    let outcome = verify_program(claim, program, &ProgramOptions::default());
    assert!(outcome.verified.is_some(), "{:#?}\n{:#?}", outcome.checks, outcome.findings);
    outcome.verified.unwrap()
}

/// The codes, or what was compared.
fn compare(schedule: &Verified<Schedule>, program: &Verified<Program>) -> Result<TransferReport, Vec<&'static str>> {
    same_transfers(schedule, program).map_err(|faults| faults.iter().map(|fault| fault.code).collect())
}

fn all_reduce(n: u32) -> Collective {
    collective(CollectiveKind::AllReduce, n, true)
}

/// The ring as a schedule.
fn ring_schedule(n: u32) -> Verified<Schedule> {
    let step = |turn: u32| {
        let of = |me: u32| {
            let chunk = o((me + 2 * n - turn) % n);
            let op = if turn < n - 1 { FlowOp::Reduce } else { FlowOp::Copy };
            flow((me, chunk), ((me + 1) % n, chunk), 1, op)
        };
        (0..n).map(of).collect()
    };
    schedule(&all_reduce(n), n, 0, (0..2 * n - 2).map(step).collect())
}

#[test]
fn the_ring_program_is_the_ring_schedule() {
    for n in [2, 3, 5] {
        let report = compare(&ring_schedule(n), &verified(&all_reduce(n), n, ring(n, 2))).unwrap();
        assert_eq!((report.transfers, report.outputs), ((2 * n * (n - 1)) as usize, (n * n) as usize));
    }
}

#[test]
fn another_correct_all_reduce_is_refused() {
    // Everybody sends the whole vector to everybody.
    let blocks = |me: u32| {
        let others: Vec<u32> = (0..3).filter(|&peer| peer != me).collect();
        let mut list: Vec<_> = others.iter().map(|&peer| s(peer, o(0), 3)).collect();
        list.extend(others.iter().map(|&peer| rrc(peer, o(0), o(0), 3)));
        vec![list]
    };
    let direct = verified(&all_reduce(3), 3, program(3, 8, 0, (0..3).map(blocks).collect()));
    let faults = same_transfers(&ring_schedule(3), &direct).unwrap_err();
    let codes: Vec<_> = faults.iter().map(|fault| fault.code).collect();
    assert_eq!(codes, ["V130", "V130", "V131"]);
    assert!(
        faults[0].message.contains("(r1.i[0] + r0.i[0])") || faults[0].message.contains(" + "),
        "{}",
        faults[0].message
    );
    assert!(faults[0].notes[0].contains(": r"), "the flow is named: {}", faults[0].notes[0]);
    assert!(faults[1].message.starts_with("r0 threadblock 0 instruction "), "{}", faults[1].message);
}

/// Two ranks: each sends its vector, the other adds it.
fn exchange(staged: bool) -> Verified<Program> {
    let blocks = |me: u32| {
        let mut list = vec![s(1 - me, o(0), 2)];
        if staged {
            list.extend([r(1 - me, sc(0), 2), re(sc(0), o(0), 2)]);
        } else {
            list.push(rrc(1 - me, o(0), o(0), 2));
        }
        vec![list]
    };
    verified(&all_reduce(2), 2, program(2, 2, 2, (0..2).map(blocks).collect()))
}

#[test]
fn staging_through_scratch_and_one_sided_moves_change_nothing() {
    let flows = (0..2).map(|me| flow((me, o(0)), (1 - me, o(0)), 2, FlowOp::Reduce)).collect();
    let schedule = schedule(&all_reduce(2), 2, 0, vec![flows]);
    let report = compare(&schedule, &exchange(false)).unwrap();
    assert_eq!((report.transfers, report.outputs, report.values), (4, 4, 8));
    assert_eq!(compare(&schedule, &exchange(true)), Ok(report));
    let blocks = |me: u32| {
        let mut list = vec![put(o(0), &[(1 - me, sc(0))], MoveOp::Copy, 2), signal(1 - me, 0), wait(0, 1)];
        list.push(re(sc(0), o(0), 2));
        vec![list]
    };
    let puts = verified(&all_reduce(2), 2, program(2, 1, 2, (0..2).map(blocks).collect()));
    assert_eq!(compare(&schedule, &puts), Ok(report));
    let blocks = |me: u32| {
        let mut list = vec![get(&[(1 - me, o(0))], sc(0), MoveOp::Copy, 2), signal(1 - me, 0), wait(0, 1)];
        list.push(re(sc(0), o(0), 2));
        vec![list]
    };
    let gets = verified(&all_reduce(2), 2, program(2, 1, 2, (0..2).map(blocks).collect()));
    assert_eq!(compare(&schedule, &gets), Ok(report));
}

#[test]
fn another_order_of_additions_is_refused() {
    let reduce = collective(CollectiveKind::Reduce { root: 0 }, 3, true);
    let flows = vec![flow((2, o(0)), (0, o(0)), 1, FlowOp::Reduce), flow((1, o(0)), (0, o(0)), 1, FlowOp::Reduce)];
    // In a step additions go by source rank, however the flows are listed.
    let schedule = schedule(&reduce, 1, 0, vec![flows]);
    let of = |order: [u32; 2]| {
        let root = order.iter().map(|&peer| rrc(peer, o(0), o(0), 1)).collect();
        let leaf = || vec![vec![s(0, i(0), 1)]];
        verified(&reduce, 1, program(1, 2, 0, vec![vec![root], leaf(), leaf()]))
    };
    assert!(compare(&schedule, &of([1, 2])).is_ok());
    assert_eq!(compare(&schedule, &of([2, 1])), Err(vec!["V131"]));
}

#[test]
fn a_relay_makes_two_transfers() {
    let broadcast = collective(CollectiveKind::Broadcast { root: 0 }, 3, false);
    let relayed = schedule(
        &broadcast,
        1,
        1,
        vec![
            vec![flow((0, i(0)), (1, sc(0)), 1, FlowOp::Copy), flow((0, i(0)), (0, o(0)), 1, FlowOp::Copy)],
            vec![flow((1, sc(0)), (2, o(0)), 1, FlowOp::Copy), flow((1, sc(0)), (1, o(0)), 1, FlowOp::Copy)],
        ],
    );
    let root = |peers: &[u32]| {
        let mut list: Vec<_> = peers.iter().map(|&peer| s(peer, i(0), 1)).collect();
        list.push(cpy(i(0), o(0), 1));
        vec![list]
    };
    let chain = program(1, 2, 0, vec![root(&[1]), vec![vec![rcs(0, o(0), 2, 1)]], vec![vec![r(1, o(0), 1)]]]);
    assert_eq!(compare(&relayed, &verified(&broadcast, 1, chain)).unwrap().transfers, 2);
    let star = program(1, 2, 0, vec![root(&[1, 2]), vec![vec![r(0, o(0), 1)]], vec![vec![r(0, o(0), 1)]]]);
    assert_eq!(compare(&relayed, &verified(&broadcast, 1, star)), Err(vec!["V130", "V130"]));
}

#[test]
fn different_collectives_and_chunks_are_not_compared() {
    assert_eq!(compare(&ring_schedule(3), &verified(&all_reduce(2), 2, ring(2, 2))), Err(vec!["V132"]));
    let halves = schedule(
        &all_reduce(2),
        1,
        0,
        vec![(0..2).map(|me| flow((me, o(0)), (1 - me, o(0)), 1, FlowOp::Reduce)).collect()],
    );
    assert_eq!(compare(&halves, &exchange(false)), Err(vec!["V132"]));
}
