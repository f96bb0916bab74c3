//! Prices worked out by hand from the definition in `rondo_ir::cost`.
#![allow(clippy::unwrap_used)] // A test that cannot build its world fails.

mod common;

use std::sync::Arc;

use common::{Builder, link_between, mesh, rank, rate, ring, spec};
use num_rational::{BigRational, Ratio};
use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, Place};
use rondo_ir::cost::CostModel;
use rondo_ir::index::RouteId;
use rondo_ir::problem::{Problem, ProblemSpec};
use rondo_ir::schedule::{Dependencies, FlowOp, Path, Route, RoutePart, Step};
use rondo_ir::topology::{Hop, Medium, Resource, TopologyBuilder};
use rondo_ir::units::{Delay, PerByte, Time};
use rondo_verify::{PriceError, price};

const COST: CostModel = CostModel {
    startup: Delay::from_nanoseconds(1000),
    reduce_cost: PerByte::from_femtoseconds(1000),
    copy_cost: PerByte::from_femtoseconds(3000),
    synchronisation: Delay::ZERO,
    overlap_reconfiguration: false,
};

fn femtoseconds(value: u64) -> Time {
    Time::from_seconds(BigRational::new(value.into(), 1_000_000_000_000_000_u64.into()))
}

fn problem(builder: TopologyBuilder, spec: CollectiveSpec) -> Arc<Problem> {
    let topology = Arc::new(builder.finish().unwrap());
    Arc::new(Problem::single(topology, Collective::new(spec).unwrap(), COST).unwrap())
}

#[test]
fn a_ring_step_by_step() {
    // 18 elements in 4 slots: 5, 5, 4, 4. In every step some rank moves 5 elements: 20 B, 20 ns at 1 GB/s.
    let problem = problem(mesh(4), spec(CollectiveKind::AllReduce, 4, 18, true));
    let price = price(&problem, &ring(&problem)).unwrap();
    assert_eq!(price.steps.len(), 6);
    for (index, step) in price.steps.iter().enumerate() {
        assert_eq!(step.startup, femtoseconds(1_000_000_000));
        assert_eq!(step.latency, femtoseconds(100_000_000));
        assert_eq!(step.bandwidth, femtoseconds(20_000_000));
        assert_eq!(step.reduce, femtoseconds(if index < 3 { 20_000 } else { 0 }));
        assert!(step.copy.is_zero() && step.reconfiguration.is_zero());
        assert_eq!(step.busiest.map(|b| b.1), Some(20));
    }
    assert_eq!(price.total, femtoseconds(6 * 1_120_000_000 + 3 * 20_000));
}

#[test]
fn split_routes_media_and_ends() {
    let mut builder = mesh(3);
    builder.nodes[0].injection = Some(rate(2));
    let topology = builder.clone().finish().unwrap();
    let link = |a: &str, b: &str| link_between(&topology, a, b);
    builder.medium(Medium { name: "bus".into(), capacity: rate(1), links: vec![link("n0", "n1"), link("n0", "sw")] });
    let problem = problem(builder, spec(CollectiveKind::Broadcast { root: 0 }, 3, 10, true));
    let mut b = Builder::new(&problem, 1);
    // 10 elements at 1/3: 3 elements directly, 7 over the switch.
    let part = |n, hops| RoutePart { weight: Ratio::new(n, 3), hops };
    let route = b.schedule.paths.intern(Route {
        parts: vec![
            part(1, vec![Hop::Link(link("n0", "n1"))]),
            part(2, vec![Hop::Link(link("n0", "sw")), Hop::Link(link("sw", "n1"))]),
        ],
    });
    let flow = b.flow((0, Place::output(0)), (1, Place::output(0)), 1, FlowOp::Copy);
    b.step(vec![rondo_ir::schedule::Flow { path: Path::route(route), ..flow }]);
    let step = price(&problem, &b.schedule).unwrap().steps.remove(0);
    // Links carry 12 and 28 B, injection 40 B at twice the rate, the bus 40 B: 40 ns.
    assert_eq!(step.bandwidth, femtoseconds(40_000_000));
    let (resource, bytes) = step.busiest.unwrap();
    assert!(matches!(resource, Resource::Medium(_)) && bytes == 40);
    assert_eq!(step.latency, femtoseconds(400_000_000));
}

#[test]
fn trees_load_each_link_once() {
    let problem = problem(mesh(4), spec(CollectiveKind::AllReduce, 4, 100, true));
    let mut b = Builder::new(&problem, 1);
    let up = b.aggregate(&[1, 2, 3], Place::output(0), (0, Place::output(0)), 1, FlowOp::Reduce);
    b.step(vec![up]);
    let down = b.multicast((0, Place::output(0)), &[1, 2, 3], Place::output(0), 1, FlowOp::Copy);
    b.step(vec![down]);
    let price = price(&problem, &b.schedule).unwrap();
    // 400 B over each link, two hops of 200 ns, and rank 0 adds what arrives once.
    assert_eq!(price.steps[0].total(), femtoseconds(1_000_000_000 + 400_000_000 + 400_000_000 + 400_000));
    assert_eq!(price.steps[1].total(), femtoseconds(1_000_000_000 + 400_000_000 + 400_000_000));
}

#[test]
fn local_work_needs_no_start_up() {
    let problem = problem(mesh(2), spec(CollectiveKind::AllReduce, 2, 8, false));
    let mut b = Builder::new(&problem, 2);
    let copy = b.flow((0, Place::input(0)), (0, Place::output(0)), 2, FlowOp::Copy);
    let add = b.flow((1, Place::input(0)), (1, Place::output(0)), 1, FlowOp::Reduce);
    b.step(vec![copy, add]);
    let price = price(&problem, &b.schedule).unwrap();
    // 32 B copied at 3 ps/B, 16 B added at 1 ps/B.
    assert_eq!(price.total, femtoseconds(32 * 3000 + 16 * 1000));
    assert_eq!((price.steps[0].copied_bytes, price.steps[0].reduced_bytes), (32, 16));
    assert_eq!(price.steps[0].busiest, None);
}

#[test]
fn levels_are_steps() {
    let problem = problem(mesh(3), spec(CollectiveKind::Broadcast { root: 0 }, 3, 10, true));
    let mut b = Builder::new(&problem, 1);
    let place = Place::output(0);
    let flows = vec![b.flow((0, place), (1, place), 1, FlowOp::Copy), b.flow((1, place), (2, place), 1, FlowOp::Copy)];
    b.step(flows);
    b.schedule.dependencies = Some(Dependencies { pairs: vec![(0_u32.into(), 1_u32.into())] });
    let price_of = price(&problem, &b.schedule).unwrap();
    assert_eq!(price_of.steps.len(), 2);
    assert_eq!(price_of.total, femtoseconds(2 * (1_000_000_000 + 100_000_000 + 40_000_000)));
    b.schedule.dependencies = Some(Dependencies { pairs: vec![(1_u32.into(), 1_u32.into())] });
    assert!(matches!(price(&problem, &b.schedule), Err(PriceError::Dependency { .. })));
}

#[test]
fn what_is_not_well_formed_has_no_price() {
    let problem = problem(mesh(3), spec(CollectiveKind::AllReduce, 3, 9, true));
    let good = ring(&problem);
    let with = |change: &dyn Fn(&mut rondo_ir::schedule::Flow)| {
        let mut schedule = good.clone();
        let mut flows: Vec<_> = schedule.flows(0_u32.into()).collect();
        change(&mut flows[1]);
        schedule.steps[0] = Step::new(flows);
        price(&problem, &schedule)
    };
    for result in [
        with(&|f| f.src = rank(77)),
        with(&|f| f.dst = rank(77)),
        with(&|f| f.group = 5_u32.into()),
        with(&|f| f.count = u32::MAX),
        with(&|f| f.path = Path::LOCAL),
        with(&|f| f.path = Path::route(RouteId::new(1000))),
    ] {
        assert!(matches!(result, Err(PriceError::Flow { flow, .. }) if flow.index() == 1), "{result:?}");
    }
    let spec = ProblemSpec { cost: CostModel::FREE, ..problem.to_spec() };
    let free = price(&Problem::new(spec).unwrap(), &good).unwrap();
    assert!(free.steps.iter().all(|s| s.startup.is_zero() && s.reduce.is_zero()));
}

/// Two hops of the longest delay that there is: a sum beyond what a delay can hold, exact all the same.
#[test]
fn very_long_delays_add_up_exactly() {
    let mut builder = mesh(2);
    for link in &mut builder.links {
        link.latency = Delay::from_femtoseconds(u64::MAX);
    }
    let topology = builder.clone().finish().unwrap();
    let problem = problem(builder, spec(CollectiveKind::Broadcast { root: 0 }, 2, 10, true));
    let mut b = Builder::new(&problem, 1);
    let hops = [("n0", "sw"), ("sw", "n1")].map(|(a, b)| Hop::Link(link_between(&topology, a, b)));
    let route =
        b.schedule.paths.intern(Route { parts: vec![RoutePart { weight: Ratio::new(1, 1), hops: hops.to_vec() }] });
    let flow = b.flow((0, Place::output(0)), (1, Place::output(0)), 1, FlowOp::Copy);
    b.step(vec![rondo_ir::schedule::Flow { path: Path::route(route), ..flow }]);
    let step = price(&problem, &b.schedule).unwrap().steps.remove(0);
    assert_eq!(step.latency, femtoseconds(u64::MAX) + femtoseconds(u64::MAX));
}
