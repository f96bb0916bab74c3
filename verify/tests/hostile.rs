//! Schedules of random numbers: never a panic, never a proof, and a code for each fault.
#![allow(clippy::unwrap_used)] // A test that cannot build its world fails.

mod common;

use std::sync::Arc;

use common::{problem, rank, ring, spec, verify};
use num_rational::Ratio;
use proptest::prelude::*;
use proptest::test_runner::Config;
use rondo_ir::collective::{Buffer, CollectiveKind, Place};
use rondo_ir::index::{DeviceId, FlowId, GeneratorId, LinkId, PortId, RouteId, TreeId};
use rondo_ir::schedule::{
    Dependencies, Flow, FlowOp, FlowSet, Generator, Path, PathKind, Route, RoutePart, Schedule, Step, Tree,
};
use rondo_ir::topology::{Circuit, Configuration, Hop};
use rondo_verify::smt::{SmtOptions, prove_completes};
use rondo_verify::{Answer, Options, price, verify_schedule};

/// Mostly small numbers, sometimes the largest.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0_u32..6, 1 => Just(u32::MAX), 1 => Just((1 << 30) - 1)]
}

fn place() -> impl Strategy<Value = Place> {
    (0_usize..3, number()).prop_map(|(b, slot)| Place::new(Buffer::ALL[b], slot.min(Place::SLOT_LIMIT - 1)))
}

fn flow() -> impl Strategy<Value = Flow> {
    (number(), number(), place(), place(), number(), 0_u8..4, number(), any::<bool>(), 0_u32..2).prop_map(
        |(src, dst, src_place, dst_place, count, form, path, copies, group)| {
            let id = path.min((1 << 30) - 1);
            Flow {
                src: rank(src),
                dst: rank(dst),
                src_place,
                dst_place,
                count,
                path: Path::new(match form {
                    0 => PathKind::Local,
                    1 => PathKind::Route(RouteId::from(id)),
                    2 => PathKind::Multicast(TreeId::from(id)),
                    _ => PathKind::Aggregate(TreeId::from(id)),
                }),
                group: group.into(),
                op: if copies { FlowOp::Copy } else { FlowOp::Reduce },
            }
        },
    )
}

fn hop() -> impl Strategy<Value = Hop> {
    prop_oneof![
        6 => (0_u32..30).prop_map(|l| Hop::Link(LinkId::from(l))),
        1 => number().prop_map(|l| Hop::Link(LinkId::from(l))),
        1 => (number(), number()).prop_map(|(a, b)| {
            Hop::Circuit(DeviceId::from(a), Circuit { from: PortId::from(b), to: PortId::from(a) })
        }),
    ]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let hops = || prop::collection::vec(hop(), 0..4);
    let part = (any::<[u8; 2]>(), any::<bool>(), hops()).prop_map(|([a, b], whole, hops)| RoutePart {
        weight: if whole { Ratio::new_raw(1, 1) } else { Ratio::new_raw(u64::from(a), u64::from(b)) },
        hops,
    });
    let routes = prop::collection::vec(prop::collection::vec(part, 0..3), 0..5);
    let trees = prop::collection::vec((hops(), prop::collection::vec(number(), 0..4)), 0..4);
    let steps = prop::collection::vec((prop::collection::vec(flow(), 0..4), any::<bool>(), any::<u8>()), 0..4);
    let pairs = prop::option::of(prop::collection::vec((number(), number()), 0..5));
    let tables = (prop::collection::vec(number(), 0..6), any::<u8>());
    let scratch = prop::collection::vec(prop::collection::vec((number(), place()), 0..3), 0..5);
    (routes, trees, steps, pairs, tables, scratch, 0_u32..4).prop_map(
        |(routes, trees, steps, pairs, (table, shape), scratch, chunks)| {
            let mut schedule = Schedule { chunks: vec![chunks], ..Schedule::default() };
            schedule.scratch = vec![rondo_ir::schedule::Scratch { like: scratch }];
            for parts in routes {
                schedule.paths.intern(Route { parts });
            }
            for (hops, leaves) in trees {
                schedule.paths.intern_tree(Tree { hops, leaves: leaves.into_iter().map(rank).collect() });
            }
            if shape % 3 == 0 {
                schedule.generators = vec![Generator {
                    ranks: table.iter().map(|&r| rank(r)).collect(),
                    slots: vec![[table.clone(), table.clone(), table.clone()]],
                    routes: table.iter().map(|&r| RouteId::from(r.min((1 << 30) - 1))).collect(),
                    trees: table.iter().map(|&r| TreeId::from(r.min((1 << 30) - 1))).collect(),
                }];
            }
            for (flows, orbit, change) in steps {
                let flows = if orbit {
                    FlowSet::Orbits {
                        representatives: flows,
                        generators: vec![GeneratorId::from(u32::from(change % 2))],
                    }
                } else {
                    FlowSet::Rows(flows)
                };
                let device = DeviceId::from(u32::from(change));
                let reconfigure = if change % 5 == 0 { vec![(device, Configuration::default())] } else { Vec::new() };
                schedule.steps.push(Step { reconfigure, flows });
            }
            schedule.dependencies = pairs.map(|pairs| Dependencies {
                pairs: pairs.into_iter().map(|(a, b)| (FlowId::from(a), FlowId::from(b))).collect(),
            });
            schedule
        },
    )
}

proptest! {
    #![proptest_config(Config::with_cases(3000))]

    #[test]
    fn random_numbers(schedule in schedule()) {
        let problem = problem(spec(CollectiveKind::AllReduce, 3, 7, false));
        let outcome = verify(&problem, &schedule);
        // Out of place, three ranks cannot be served by what fits in here: no flow sends to all outputs and completes.
        prop_assert!(outcome.verified.is_none());
        for check in &outcome.checks {
            prop_assert!(!check.detail.is_empty());
        }
        prop_assert!(outcome.answer() == Answer::Unknown || outcome.findings.iter().all(|f| f.code.starts_with('V')));
        prop_assert_eq!(outcome.answer() == Answer::Refuted, !outcome.findings.is_empty());
        let _ = price(&problem, &schedule);
    }
}

/// The same report on any number of threads.
#[test]
fn reports_are_deterministic() {
    for drop in 0..30 {
        let problem = problem(spec(CollectiveKind::AllReduce, 6, 60, true));
        let mut schedule = ring(&problem);
        let step = drop % schedule.steps.len();
        if let FlowSet::Rows(rows) = &mut schedule.steps[step].flows {
            rows.remove(drop % 6);
        }
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let outcome = pool.install(|| verify(&Arc::clone(&problem), &schedule));
            (outcome.checks, outcome.findings)
        };
        assert_eq!(run(1), run(3));
    }
}

/// Two generators and one flow that stand for 2³² flows: neither walked nor proved, by anybody.
#[test]
fn orbits_of_very_many_flows() {
    let slots = 1_u32 << 16;
    let problem = problem(spec(CollectiveKind::AllReduce, 2, 1 << 20, false));
    let table = |turned: bool| -> Vec<u32> { (0..slots).map(|s| if turned { (s + 1) % slots } else { s }).collect() };
    let generator = |input| Generator {
        ranks: vec![rank(0), rank(1)],
        slots: vec![[table(input), table(!input), Vec::new()]],
        routes: Vec::new(),
        trees: Vec::new(),
    };
    let flow = Flow::local(rank(0), Place::input(0), Place::output(0), 1, FlowOp::Copy);
    let mut schedule = Schedule::new("hostile", &problem, vec![slots]);
    // Named twice: no more work than once.
    let generators = vec![GeneratorId::new(0), GeneratorId::new(1), GeneratorId::new(0)];
    schedule.generators = vec![generator(true), generator(false)];
    schedule.steps =
        vec![Step { reconfigure: Vec::new(), flows: FlowSet::Orbits { representatives: vec![flow], generators } }];
    let options = Options { memory: 1 << 24, ..Options::default() };
    let outcome = verify_schedule(Arc::clone(&problem), schedule.clone(), &options);
    assert_eq!(outcome.answer(), Answer::Unknown);
    assert_eq!(
        outcome.checks[0].detail,
        "the orbits of the schedule stand for more than 131072 flows, which is the limit"
    );
    let smt_options = SmtOptions { max_transfers: 1000, ..SmtOptions::default() };
    assert_eq!(prove_completes(&problem, &schedule, &smt_options).answer, Answer::Unknown);
    // A generator that is no permutation changes nothing in that.
    schedule.generators[0].slots[0][0][0] = 7;
    let outcome = verify_schedule(Arc::clone(&problem), schedule, &options);
    assert_eq!(outcome.answer(), Answer::Unknown);
}
