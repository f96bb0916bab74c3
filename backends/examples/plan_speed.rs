//! How fast plans are written and read: `cargo run --release -p rondo-backends --example plan_speed [RANKS]`.
//!
//! The plan is a ring AllReduce, 2(n−1) steps of n flows; the default of 1024 ranks has 2.1 million. Times are those that this
//! process spent on a processor, where the system tells (Linux), so that a busy machine does not blur them; else wall time.

use std::sync::Arc;
use std::time::Instant;

use rondo_backends::json::{self, Plan, PlanRef, ProgramHeader};
use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, DataType, Place, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::index::RankId;
use rondo_ir::problem::Problem;
use rondo_ir::program::{Connection, Operation, OperationKind, Program, RankProgram, Threadblock};
use rondo_ir::schedule::{Flow, FlowOp, Route, Schedule, Step};
use rondo_ir::topology::{Hop, Node, TopologyBuilder};
use rondo_ir::units::{Bytes, Delay, Rate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let n: u32 = std::env::args().nth(1).map_or(Ok(1024), |text| text.parse())?;
    let collective = Collective::new(CollectiveSpec {
        kind: CollectiveKind::AllReduce,
        ranks: n,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(1 << 30),
        in_place: true,
        input_writable: false,
    })?;
    let (problem, schedule) = ring(n, collective.clone())?;
    measure(
        "schedule",
        schedule.flow_count(),
        PlanRef::Schedule { problem: &problem, schedule: &schedule, claimed: None },
    )?;
    let program = program(n);
    let claim = ProgramHeader { collective, chunks: n };
    measure("program", program.operation_count(), PlanRef::Program { claim: &claim, program: &program })?;
    Ok(())
}

fn measure(what: &str, rows: usize, plan: PlanRef<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let (mut write, mut read) = (f64::INFINITY, f64::INFINITY);
    let mut bytes = 0;
    let origin = Instant::now();
    for _ in 0..5 {
        let start = clock(origin);
        let mut text = Vec::new();
        json::emit(plan, &mut text)?;
        write = write.min(clock(origin) - start);
        bytes = text.len();
        let start = clock(origin);
        let back = json::parse("plan.json", &text).map_err(|errors| errors[0].message.clone())?;
        read = read.min(clock(origin) - start);
        let same = match (&back, plan) {
            (Plan::Schedule { schedule, .. }, PlanRef::Schedule { schedule: before, .. }) => schedule == before,
            (Plan::Program { program, .. }, PlanRef::Program { program: before, .. }) => {
                program.operation_count() == before.operation_count()
            }
            _ => false,
        };
        if !same {
            return Err("what was read is not what was written".into());
        }
    }
    let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
    println!("{what}: {rows} rows, {:.1} MB", bytes as f64 / 1e6);
    println!("  write {write:.3} s, {:.0} MB/s; read {read:.3} s, {:.0} MB/s (best of 5)", rate(write), rate(read));
    Ok(())
}

/// Seconds that this process has run; seconds since `origin` where the system does not tell.
fn clock(origin: Instant) -> f64 {
    let nanoseconds = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanoseconds = nanoseconds.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    nanoseconds.map_or_else(|| origin.elapsed().as_secs_f64(), |ns| ns as f64 / 1e9)
}

fn ring(n: u32, collective: Collective) -> Result<(Problem, Schedule), Box<dyn std::error::Error>> {
    let mut builder = TopologyBuilder::new(format!("ring of {n}"));
    let nodes: Vec<_> = (0..n).map(|r| builder.node(Node::compute(format!("gpu{r}")))).collect();
    let capacity = Rate::new(25_000_000_000).ok_or("zero rate")?;
    let links: Vec<_> = (0..n as usize)
        .map(|r| builder.link(nodes[r], nodes[(r + 1) % nodes.len()], capacity, Delay::from_nanoseconds(500)))
        .collect();
    let topology = builder.finish().map_err(|errors| errors[0].to_string())?;
    let problem = Problem::single(Arc::new(topology), collective, CostModel::FREE)?;
    let mut schedule = Schedule::new("ring", &problem, vec![n]);
    let routes: Vec<_> =
        links.into_iter().map(|link| schedule.paths.intern(Route::single(vec![Hop::Link(link)]))).collect();
    for step in 0..2 * (n - 1) {
        let op = if step < n - 1 { FlowOp::Reduce } else { FlowOp::Copy };
        let flows = (0..n).zip(&routes).map(|(r, &route)| {
            let place = Place::output((r + 2 * n - step) % n);
            Flow::unicast((RankId::from(r), place), (RankId::from((r + 1) % n), place), 1, op, route)
        });
        schedule.steps.push(Step::new(flows.collect()));
    }
    Ok((problem, schedule))
}

fn program(n: u32) -> Program {
    let rank = |r: u32| {
        let connection = |peer: u32| Some(Connection { peer: RankId::from(peer), channel: 0 });
        let operations = (0..2 * n - 1).map(|step| {
            let place = Some(Place::output((r + 2 * n - step) % n));
            Operation::new(OperationKind::Move {
                receive: if step == 0 { None } else { connection((r + n - 1) % n) },
                local: if step < n { place } else { None },
                store: if step < n - 1 { None } else { place },
                send: if step == 2 * (n - 1) { None } else { connection((r + 1) % n) },
                count: 1,
            })
        });
        let threadblock = Threadblock { id: 0, operations: operations.collect(), ..Threadblock::default() };
        RankProgram { threadblocks: vec![threadblock], ..RankProgram::default() }
    };
    Program { name: "ring".into(), chunks: n, fifo_depth: 2, ranks: (0..n).map(rank).collect() }
}
