//! Short names to write programs down with.

use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, DataType, Place, ReduceOperator};
use rondo_ir::index::RankId;
use rondo_ir::program::{
    Connection, MoveOp, Operation, OperationKind, OperationRef, Program, RankProgram, SourceSpan, Threadblock,
};
use rondo_ir::units::Bytes;

use crate::program::{ProgramOptions, ProgramOutcome, verify_program_located};
use crate::{Answer, Claim};

pub(in crate::program) fn collective(kind: CollectiveKind, ranks: u32, in_place: bool) -> Collective {
    Collective::new(CollectiveSpec {
        kind,
        ranks,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(4 * 5040),
        in_place,
        input_writable: false,
    })
    .unwrap()
}

pub(in crate::program) fn claim(kind: CollectiveKind, ranks: u32, in_place: bool, chunks: u32) -> Claim {
    Claim { collective: collective(kind, ranks, in_place), chunks }
}

pub(in crate::program) fn i(slot: u32) -> Place {
    Place::input(slot)
}

pub(in crate::program) fn o(slot: u32) -> Place {
    Place::output(slot)
}

pub(in crate::program) fn sc(slot: u32) -> Place {
    Place::scratch(slot)
}

pub(in crate::program) fn rank(number: u32) -> RankId {
    RankId::from(number)
}

fn moves(receive: Option<u32>, local: Option<Place>, store: Option<Place>, send: Option<u32>, count: u32) -> Operation {
    let end = |peer: u32| Connection { peer: rank(peer), channel: 0 };
    Operation::new(OperationKind::Move { receive: receive.map(end), local, store, send: send.map(end), count })
}

/// Sends from a place.
pub(in crate::program) fn s(peer: u32, place: Place, count: u32) -> Operation {
    moves(None, Some(place), None, Some(peer), count)
}

/// Receives to a place.
pub(in crate::program) fn r(peer: u32, place: Place, count: u32) -> Operation {
    moves(Some(peer), None, Some(place), None, count)
}

/// Copies.
pub(in crate::program) fn cpy(src: Place, dst: Place, count: u32) -> Operation {
    moves(None, Some(src), Some(dst), None, count)
}

/// Receives, stores, sends on.
pub(in crate::program) fn rcs(from: u32, place: Place, to: u32, count: u32) -> Operation {
    moves(Some(from), None, Some(place), Some(to), count)
}

/// Receives, adds, stores.
pub(in crate::program) fn rrc(from: u32, src: Place, dst: Place, count: u32) -> Operation {
    moves(Some(from), Some(src), Some(dst), None, count)
}

/// Receives, adds, sends on.
pub(in crate::program) fn rrs(from: u32, place: Place, to: u32, count: u32) -> Operation {
    moves(Some(from), Some(place), None, Some(to), count)
}

/// Receives, adds, stores, sends on.
pub(in crate::program) fn rrcs(from: u32, place: Place, to: u32, count: u32) -> Operation {
    moves(Some(from), Some(place), Some(place), Some(to), count)
}

pub(in crate::program) fn re(src: Place, dst: Place, count: u32) -> Operation {
    Operation::new(OperationKind::Reduce { sources: vec![src], dst, count })
}

pub(in crate::program) fn nop() -> Operation {
    Operation::new(OperationKind::Nop)
}

pub(in crate::program) fn put(src: Place, to: &[(u32, Place)], op: MoveOp, count: u32) -> Operation {
    let to = to.iter().map(|&(peer, place)| (rank(peer), place)).collect();
    Operation::new(OperationKind::Put { src, to, op, count })
}

pub(in crate::program) fn get(from: &[(u32, Place)], dst: Place, op: MoveOp, count: u32) -> Operation {
    let from = from.iter().map(|&(peer, place)| (rank(peer), place)).collect();
    Operation::new(OperationKind::Get { from, dst, op, count })
}

pub(in crate::program) fn signal(peer: u32, counter: u32) -> Operation {
    Operation::new(OperationKind::Signal { peer: rank(peer), counter })
}

pub(in crate::program) fn wait(counter: u32, value: u64) -> Operation {
    Operation::new(OperationKind::Wait { counter, value, stride: 0 })
}

pub(in crate::program) fn wait_stride(counter: u32, value: u64, stride: u64) -> Operation {
    Operation::new(OperationKind::Wait { counter, value, stride })
}

pub(in crate::program) fn barrier(number: u32, threadblocks: &[u32]) -> Operation {
    Operation::new(OperationKind::Barrier { barrier: number, threadblocks: threadblocks.to_vec() })
}

pub(in crate::program) fn repeat(times: u32, body: Vec<Operation>) -> Operation {
    Operation::new(OperationKind::Loop { times, body })
}

/// The same, after an operation of another threadblock.
pub(in crate::program) fn after(mut operation: Operation, threadblock: u32, index: u32) -> Operation {
    operation.waits_for.push(OperationRef { threadblock, operation: index });
    operation
}

/// The same on another channel.
pub(in crate::program) fn on(mut operation: Operation, lane: u32) -> Operation {
    if let OperationKind::Move { receive, send, .. } = &mut operation.kind {
        for connection in receive.iter_mut().chain(send) {
            connection.channel = lane;
        }
    }
    operation
}

/// The same, and others may wait for it.
pub(in crate::program) fn publish(mut operation: Operation) -> Operation {
    operation.publishes = true;
    operation
}

/// A program of threadblocks by rank; each operation gets a line of its own, from 1.
pub(in crate::program) fn program(
    chunks: u32,
    fifo_depth: u32,
    scratch_slots: u32,
    ranks: Vec<Vec<Vec<Operation>>>,
) -> Program {
    fn number(operations: &mut [Operation], line: &mut u32) {
        for operation in operations {
            *line += 1;
            operation.span = SourceSpan { line: *line, column: 7 };
            if let OperationKind::Loop { body, .. } = &mut operation.kind {
                number(body, line);
            }
        }
    }
    let mut line = 0;
    let ranks = ranks
        .into_iter()
        .map(|blocks| RankProgram {
            scratch_slots,
            threadblocks: (0..)
                .zip(blocks)
                .map(|(id, mut operations)| {
                    number(&mut operations, &mut line);
                    Threadblock { id, operations, span: SourceSpan::default() }
                })
                .collect(),
            span: SourceSpan::default(),
        })
        .collect();
    Program { name: "test".to_owned(), chunks, fifo_depth, ranks }
}

/// Verifies, and gives the answer with the codes of all errors, each once, and of all warnings.
pub(in crate::program) fn verdict(claim: &Claim, program: &Program) -> (Answer, Vec<&'static str>) {
    let outcome = located(claim, program).outcome;
    let mut codes: Vec<_> = outcome.findings.iter().map(|finding| finding.code).collect();
    codes.sort_unstable();
    codes.dedup();
    (outcome.answer(), codes)
}

pub(in crate::program) fn located(claim: &Claim, program: &Program) -> ProgramOutcome {
    verify_program_located(claim.clone(), program.clone(), &ProgramOptions::default())
}

/// The detail of a check.
pub(in crate::program) fn detail(claim: &Claim, program: &Program, name: &str) -> String {
    let outcome = located(claim, program).outcome;
    outcome.checks.iter().find(|check| check.name == name).map(|check| check.detail.clone()).unwrap_or_default()
}

/// The fused ring AllReduce in place: each rank sends once, then only receives and sends at once.
pub(in crate::program) fn ring(n: u32, depth: u32) -> Program {
    let blocks = |me: u32| {
        let (next, before) = ((me + 1) % n, (me + n - 1) % n);
        let chunk = |turn: u32| o((me + 2 * n - turn) % n);
        let mut list = vec![s(next, chunk(0), 1)];
        for turn in 1..2 * n - 2 {
            list.push(if turn < n - 1 {
                rrs(before, chunk(turn), next, 1)
            } else if turn == n - 1 {
                rrcs(before, chunk(turn), next, 1)
            } else {
                rcs(before, chunk(turn), next, 1)
            });
        }
        let last = chunk(2 * n - 2);
        list.push(r(before, last, 1));
        vec![list]
    };
    program(n, depth, 0, (0..n).map(blocks).collect())
}
