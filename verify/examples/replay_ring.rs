//! Measures building, verifying and pricing a ring AllReduce: `cargo run --release -p rondo-verify --example replay_ring -- 1024`.
//!
//! The schedule is made here, so that the measure needs nothing but this crate.

use std::sync::Arc;
use std::time::Instant;

use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, DataType, Place, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::index::RankId;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, FlowOp, Route, Schedule, Step};
use rondo_ir::topology::{Hop, Node, TopologyBuilder};
use rondo_ir::units::{Bytes, Delay, Rate};
use rondo_verify::{Options, price, verify_schedule};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let n: u32 = std::env::args().nth(1).map_or(Ok(1024), |text| text.parse())?;
    let rate = Rate::new(25_000_000_000).ok_or("no rate")?;
    let mut builder = TopologyBuilder::new(format!("ring of {n}"));
    let nodes: Vec<_> = (0..n).map(|r| builder.node(Node::compute(format!("n{r}")))).collect();
    let links: Vec<_> = (0..nodes.len())
        .map(|r| builder.link(nodes[r], nodes[(r + 1) % nodes.len()], rate, Delay::from_nanoseconds(700)))
        .collect();
    let topology = Arc::new(builder.finish().map_err(|errors| format!("{errors:?}"))?);
    let collective = Collective::new(CollectiveSpec {
        kind: CollectiveKind::AllReduce,
        ranks: n,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(64 << 20),
        in_place: true,
        input_writable: false,
    })?;
    let problem = Arc::new(Problem::single(topology, collective, CostModel::FREE)?);

    let start = Instant::now();
    let mut schedule = Schedule::new("ring", &problem, vec![n]);
    let routes: Vec<_> = links.iter().map(|&l| schedule.paths.intern(Route::single(vec![Hop::Link(l)]))).collect();
    for (op, shift) in [(FlowOp::Reduce, 0), (FlowOp::Copy, 1)] {
        for t in 0..n - 1 {
            let flow = |r: u32| {
                let place = Place::output((r + shift + n - t) % n);
                let (src, dst) = (RankId::from(r), RankId::from((r + 1) % n));
                Flow::unicast((src, place), (dst, place), 1, op, routes[r as usize])
            };
            schedule.steps.push(Step::new((0..n).map(flow).collect()));
        }
    }
    let built = start.elapsed();
    let flows = schedule.flow_count();

    let start = Instant::now();
    let cost = price(&problem, &schedule)?;
    let priced = start.elapsed();

    let start = Instant::now();
    let outcome = verify_schedule(Arc::clone(&problem), schedule, &Options::default());
    let verified = start.elapsed();
    for check in &outcome.checks {
        println!("{:18} {:?}  {}", check.name, check.answer, check.detail);
    }
    println!("{n} ranks, {flows} flows, {} in {} steps", cost.total, cost.steps.len());
    println!("built {built:.3?}, priced {priced:.3?}, verified {verified:.3?}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map_or("unknown", str::trim);
    println!("peak memory {peak}");
    Ok(())
}
