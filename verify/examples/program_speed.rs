//! How long the verification of a ring AllReduce program takes.
//!
//! `cargo run --release -p rondo-verify --example program_speed -- RANKS…`; prints milliseconds, the best of ten runs.

use std::time::{Duration, Instant};

use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, DataType, Place, ReduceOperator};
use rondo_ir::index::RankId;
use rondo_ir::program::{
    Connection, Operation, OperationKind, OperationRef, Program, RankProgram, SourceSpan, Threadblock,
};
use rondo_ir::units::Bytes;
use rondo_verify::Claim;
use rondo_verify::program::{ProgramOptions, verify_program};

fn operation(receive: Option<u32>, local: bool, store: bool, send: Option<u32>, chunk: u32) -> Operation {
    let end = |peer: u32| Connection { peer: RankId::from(peer), channel: 0 };
    let place = Some(Place::output(chunk));
    Operation::new(OperationKind::Move {
        receive: receive.map(end),
        local: place.filter(|_| local),
        store: place.filter(|_| store),
        send: send.map(end),
        count: 1,
    })
}

/// One threadblock that sends and one that receives, or a single one that does both.
fn ring(n: u32, blocks: usize) -> Program {
    let rank = |me: u32| {
        let (next, before) = ((me + 1) % n, (me + n - 1) % n);
        let chunk = |turn: u32| (me + 2 * n - turn) % n;
        let mut lists: Vec<Vec<Operation>> = vec![Vec::new(); blocks];
        for turn in 0..2 * n - 2 {
            let mut send = operation(None, true, false, Some(next), chunk(turn));
            if blocks == 2 && turn != 0 {
                send.waits_for.push(OperationRef { threadblock: 1, operation: turn - 1 });
            }
            lists[0].push(send);
            let mut receive = operation(Some(before), turn < n - 1, true, None, chunk(turn + 1));
            receive.publishes = blocks == 2;
            lists[blocks - 1].push(receive);
        }
        let threadblocks =
            (0..).zip(lists).map(|(id, operations)| Threadblock { id, operations, span: SourceSpan::default() });
        RankProgram { scratch_slots: 0, threadblocks: threadblocks.collect(), span: SourceSpan::default() }
    };
    Program { name: "ring".to_owned(), chunks: n, fifo_depth: 2, ranks: (0..n).map(rank).collect() }
}

fn main() {
    let ranks: Vec<u32> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let ranks = if ranks.is_empty() { vec![64, 128, 256, 1024] } else { ranks };
    for n in ranks {
        for blocks in [1, 2] {
            let spec = CollectiveSpec {
                kind: CollectiveKind::AllReduce,
                ranks: n,
                operator: ReduceOperator::Sum,
                dtype: DataType::Float32,
                buffer_size: Bytes(1 << 20),
                in_place: true,
                input_writable: false,
            };
            let Ok(collective) = Collective::new(spec) else { continue };
            let claim = Claim { collective, chunks: n };
            let program = ring(n, blocks);
            let operations = program.operation_count();
            let mut best = Duration::MAX;
            let mut answer = None;
            for _ in 0..10 {
                let (claim, program) = (claim.clone(), program.clone());
                let start = Instant::now();
                let outcome = verify_program(claim, program, &ProgramOptions::default());
                best = best.min(start.elapsed());
                answer = Some(outcome.answer());
            }
            println!(
                "{n} ranks, {blocks} threadblocks, {operations} operations: {:.1} ms, {answer:?}",
                best.as_secs_f64() * 1e3
            );
        }
    }
}
