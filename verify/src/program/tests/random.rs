//! Random small programs, and mutants of good ones, against the oracle.

use rondo_ir::collective::{CollectiveKind, Place};
use rondo_ir::program::{MoveOp, Operation, OperationKind, OperationRef, Program};

use super::build::*;
use super::oracle::{Met, Oracle, Random};
use crate::program::ProgramOptions;
use crate::program::atoms::Atoms;
use crate::program::report::Findings;
use crate::program::{form, order, race};
use crate::{Answer, Check, Claim};

/// States that the oracle explores.
const STATES: usize = 20_000;

fn answer(checks: &[Check], name: &str) -> Answer {
    checks.iter().find(|check| check.name == name).map_or(Answer::Unknown, |check| check.answer)
}

/// Compares everything that the oracle can say about a program with what was verified.
fn compare(claim: &Claim, program: &Program, random: &mut Random, met: &mut Met) {
    let outcome = located(claim, program).outcome;
    let codes: Vec<_> = outcome.findings.iter().map(|finding| finding.code).collect();
    let show = || format!("{program:#?}\n{:#?}\n{:#?}", outcome.checks, outcome.findings);
    if answer(&outcome.checks, "well-formed") != Answer::Proved {
        met.count("malformed");
        assert!(outcome.verified.is_none());
        return;
    }
    let depth = u64::from(program.fifo_depth);
    let (whole, split) = (Oracle::new(claim, program, false), Oracle::new(claim, program, true));
    let Some(never) = split.can_get_stuck(u64::MAX, STATES) else {
        met.count("too large");
        return;
    };
    let stuck = [&whole, &split].map(|oracle| oracle.can_get_stuck(depth, STATES).unwrap_or(false));
    let hung = never || whole.can_get_stuck(u64::MAX, STATES).unwrap_or(false) || stuck[0] || stuck[1];
    assert_eq!(answer(&outcome.checks, "no-deadlock") == Answer::Refuted, hung, "{}", show());
    assert_eq!(answer(&outcome.checks, "no-deadlock") == Answer::Proved, !hung, "{}", show());
    // Not all: the solver takes longer than everything else.
    let asked = random.below(4) == 0;
    if never {
        assert!(codes.contains(&"V114"), "{}", show());
        if asked {
            smt_agrees(claim, program, true, false, None, met);
        }
        met.count("deadlock");
        return;
    }
    if stuck[0] {
        assert!(codes.contains(&"V115"), "{}", show());
        met.count("deadlock at a depth");
    } else if stuck[1] {
        assert!(codes.contains(&"V116"), "{}", show());
        met.count("deadlock when split");
    }
    if hung {
        met.count("hung");
    }
    clocks_and_searches_agree(claim, program);
    let races = split.has_race(STATES).expect("explored before");
    assert_eq!(answer(&outcome.checks, "no-race") == Answer::Refuted, races, "{}", show());
    assert_eq!(answer(&outcome.checks, "no-race") == Answer::Proved, !races, "{}", show());
    if races {
        if asked {
            smt_agrees(claim, program, hung, true, Some(false), met);
        }
        met.count("race");
        return;
    }
    let mut ends = split.ends(u64::MAX, 4, random);
    for end in whole.ends(u64::MAX, 2, random) {
        if !ends.contains(&end) {
            ends.push(end);
        }
    }
    assert_eq!(ends.len(), 1, "no race, but different results: {ends:#?}\n{}", show());
    let right = split.is_right(&ends[0]);
    assert_eq!(answer(&outcome.checks, "completes") == Answer::Proved, right, "{}", show());
    assert_eq!(answer(&outcome.checks, "completes") == Answer::Refuted, !right, "{}", show());
    assert_eq!(outcome.verified.is_some(), right && !hung, "{}", show());
    if asked {
        smt_agrees(claim, program, hung, false, Some(right), met);
    }
    met.count(if right { "right" } else { "wrong" });
}

/// The SMT solver, which reads the program by code of its own, says the same as the oracle.
#[cfg(feature = "smt")]
fn smt_agrees(claim: &Claim, program: &Program, hung: bool, races: bool, right: Option<bool>, met: &mut Met) {
    let options = ProgramOptions { smt: crate::SmtMode::Auto, ..ProgramOptions::default() };
    let outcome = crate::program::verify_program_located(claim.clone(), program.clone(), &options).outcome;
    let mut is = |name: &str, holds: bool| {
        let due = if holds { Answer::Proved } else { Answer::Refuted };
        assert_eq!(answer(&outcome.checks, name), due, "{name}: {program:#?}\n{:#?}", outcome.checks);
        met.count(format!("{name}: {due:?}"));
    };
    is("smt-no-deadlock", !hung);
    if let Some(right) = right {
        is("smt-no-race", !races);
        if !races {
            is("smt-completes", right);
        }
    }
    assert!(outcome.findings.iter().all(|finding| finding.code != "V900"), "{:#?}", outcome.findings);
}

#[cfg(not(feature = "smt"))]
fn smt_agrees(_: &Claim, _: &Program, _: bool, _: bool, _: Option<bool>, _: &mut Met) {}

/// Whether pairs are searched for or looked up in clocks over the whole graph does not matter.
fn clocks_and_searches_agree(claim: &Claim, program: &Program) {
    let options = ProgramOptions::default();
    let Ok(flat) = form::check(claim, program, &options, &mut Findings::new(1)) else { panic!("is well formed") };
    let atoms = Atoms::new(&flat, true);
    let order = order::total_order(&flat, &atoms).expect("finishes");
    let positions = order::positions(&order);
    let within = |search| race::races_within(&flat, &atoms, &order, &positions, search).pairs();
    assert_eq!(within(0), within(usize::MAX), "{program:#?}");
    assert_eq!(within(0), within(3), "{program:#?}");
}

/// A random place of a rank.
fn place(random: &mut Random, slots: u32) -> Place {
    let slot = u32::try_from(random.below(slots as usize)).unwrap();
    match random.below(3) {
        0 => sc(slot),
        _ => o(slot),
    }
}

/// A random program of two ranks: messages and signals in an order that can work, then dependencies, then some disorder.
fn random_program(random: &mut Random) -> Program {
    let blocks_of_rank = 1 + random.below(2);
    let blocks = 2 * blocks_of_rank;
    let mut lists: Vec<Vec<Operation>> = vec![Vec::new(); blocks];
    let rank_of = |block: usize| u32::try_from(block / blocks_of_rank).unwrap();
    let mut signals = [[0_u64; 2]; 2];
    for _ in 0..2 + random.below(5) {
        let block = random.below(blocks);
        let me = rank_of(block);
        let count = 1 + u32::try_from(random.below(2)).unwrap();
        let within = |random: &mut Random| place(random, 3 - count);
        match random.below(8) {
            0..=2 => {
                let other = blocks_of_rank * (1 - me as usize) + random.below(blocks_of_rank);
                // A connection of its own for each pair of threadblocks.
                let channel = u32::try_from(blocks * block.min(other) + block.max(other)).unwrap();
                let (from, to) = (within(random), within(random));
                lists[block].push(on(s(1 - me, from, count), channel));
                let receive = if random.chance(3) { rrc(me, to, to, count) } else { r(me, to, count) };
                lists[other].push(on(receive, channel));
            }
            3 => {
                let (src, dst) = (within(random), within(random));
                lists[block].push(if random.chance(2) { cpy(src, dst, count) } else { re(src, dst, count) });
            }
            4 | 5 => {
                let counter = random.below(2);
                let peer = 1 - me;
                let op = if random.chance(3) { MoveOp::Reduce } else { MoveOp::Copy };
                let (src, dst) = (within(random), within(random));
                lists[block].push(put(src, &[(peer, dst)], op, count));
                lists[block].push(signal(peer, u32::try_from(counter).unwrap()));
                let total = &mut signals[peer as usize][counter];
                *total += 1;
                if !random.chance(4) {
                    let value = if random.chance(4) { 1 } else { *total };
                    let waiter = blocks_of_rank * peer as usize + random.below(blocks_of_rank);
                    lists[waiter].push(wait(u32::try_from(counter).unwrap(), value));
                }
            }
            6 => {
                let (src, dst) = (within(random), within(random));
                lists[block].push(get(&[(1 - me, src)], dst, MoveOp::Copy, count));
            }
            _ => {
                if blocks_of_rank == 2 {
                    let first = block - block % 2;
                    lists[first].push(barrier(0, &[0, 1]));
                    lists[first + 1].push(barrier(0, &[0, 1]));
                } else {
                    lists[block].push(nop());
                }
            }
        }
    }
    for block in 0..blocks {
        for at in 0..lists[block].len() {
            if blocks_of_rank == 2 && random.chance(2) {
                let other = block ^ 1;
                // Rather one that stands earlier.
                let end = if random.chance(5) { lists[other].len() } else { lists[other].len().min(at) };
                if end != 0 {
                    let awaited = random.below(end);
                    lists[other][awaited].publishes = true;
                    let wait = OperationRef {
                        threadblock: u32::try_from(other % 2).unwrap(),
                        operation: u32::try_from(awaited).unwrap(),
                    };
                    lists[block][at].waits_for.push(wait);
                }
            }
        }
        if random.chance(4) && 1 < lists[block].len() {
            let at = random.below(lists[block].len() - 1);
            lists[block].swap(at, at + 1);
        }
    }
    let mut lists = lists.into_iter();
    let ranks = (0..2).map(|_| lists.by_ref().take(blocks_of_rank).collect()).collect();
    program(2, 1 + u32::try_from(random.below(2)).unwrap(), 2, ranks)
}

#[test]
fn random_programs_are_judged_as_the_oracle_does() {
    let mut random = Random::new(1);
    let mut met = Met::default();
    let claim = claim(CollectiveKind::AllReduce, 2, true, 2);
    for _ in 0..6000 {
        let program = random_program(&mut random);
        compare(&claim, &program, &mut random, &mut met);
    }
    met.at_least(50, &["malformed", "deadlock", "deadlock when split", "race", "wrong"]);
}

/// Good programs of different make, small enough for the oracle.
fn good() -> Vec<(Claim, Program)> {
    let reduce = |n, chunks| claim(CollectiveKind::AllReduce, n, true, chunks);
    let exchange = |me: u32| {
        let send = s(1 - me, o(0), 2);
        vec![vec![publish(send)], vec![r(1 - me, sc(0), 2), after(re(sc(0), o(0), 2), 0, 0)]]
    };
    let one_sided = |me: u32| {
        let mut list = vec![put(o(0), &[(1 - me, sc(0))], MoveOp::Copy, 1), signal(1 - me, 0), wait(0, 1)];
        list.push(re(sc(0), o(0), 1));
        vec![list]
    };
    let relay = vec![
        vec![vec![s(1, i(0), 2), cpy(i(0), o(0), 2)]],
        vec![
            vec![publish(r(0, o(0), 1)), publish(r(0, o(1), 1))],
            vec![after(s(2, o(0), 1), 0, 0), after(s(2, o(1), 1), 0, 1)],
        ],
        vec![vec![r(1, o(0), 1), r(1, o(1), 1)]],
    ];
    let mut relay = program(2, 2, 0, relay);
    // The root sends two messages of one slot, as they are received.
    relay.ranks[0].threadblocks[0].operations.splice(0..1, [s(1, i(0), 1), s(1, i(1), 1)]);
    let looped = vec![
        vec![vec![
            cpy(i(0), o(0), 1),
            repeat(2, vec![wait_stride(0, 0, 1), put(i(0), &[(1, sc(0))], MoveOp::Copy, 1), signal(1, 0)]),
        ]],
        vec![vec![repeat(2, vec![wait_stride(0, 1, 1), cpy(sc(0), o(0), 1), signal(0, 0)])]],
    ];
    vec![
        (reduce(2, 2), ring(2, 2)),
        (reduce(3, 3), ring(3, 2)),
        (reduce(2, 2), program(2, 2, 2, (0..2).map(exchange).collect())),
        (reduce(2, 1), program(1, 1, 1, (0..2).map(one_sided).collect())),
        (claim(CollectiveKind::Broadcast { root: 0 }, 3, false, 2), relay),
        (claim(CollectiveKind::Broadcast { root: 0 }, 2, false, 1), program(1, 1, 1, looped)),
    ]
}

/// Changes one thing.
fn mutate(program: &mut Program, random: &mut Random) {
    let rank = random.below(program.ranks.len());
    let blocks = &mut program.ranks[rank].threadblocks;
    let block = random.below(blocks.len());
    let list = &mut blocks[block].operations;
    if list.is_empty() {
        return;
    }
    let at = random.below(list.len());
    let other = random.below(list.len());
    let shift = |place: &mut Place| *place = Place::new(place.buffer(), place.slot() ^ 1);
    match random.below(8) {
        0 => {
            list.remove(at);
        }
        1 => list.swap(at, other),
        2 => list.insert(at, list[at].clone()),
        3 => list[at].waits_for.clear(),
        4 => list[at].publishes ^= true,
        5 => program.fifo_depth = 1,
        6 => {
            let operation = match &mut list[at].kind {
                OperationKind::Loop { body, .. } => {
                    let at = random.below(body.len());
                    &mut body[at]
                }
                _ => &mut list[at],
            };
            match &mut operation.kind {
                OperationKind::Move { local: Some(place), .. } | OperationKind::Move { store: Some(place), .. } => {
                    shift(place);
                }
                OperationKind::Wait { value, .. } => *value = value.saturating_sub(1),
                OperationKind::Reduce { dst, .. } => shift(dst),
                OperationKind::Put { op, .. } => *op = MoveOp::Reduce,
                _ => {}
            }
        }
        _ => {
            if let OperationKind::Move { receive: Some(_), local, store, .. } = &mut list[at].kind {
                // Adds where it replaced, or the other way round.
                *local = if local.is_none() { *store } else { None };
            }
        }
    }
}

#[test]
fn mutants_of_good_programs_are_judged_as_the_oracle_does() {
    let mut random = Random::new(2);
    let mut met = Met::default();
    for (claim, program) in good() {
        assert_eq!(located(&claim, &program).outcome.answer(), Answer::Proved, "{program:#?}");
        compare(&claim, &program, &mut random, &mut met);
        for _ in 0..300 {
            let mut mutant = program.clone();
            for _ in 0..1 + random.below(2) {
                mutate(&mut mutant, &mut random);
            }
            compare(&claim, &mutant, &mut random, &mut met);
        }
    }
    met.at_least(10, &["malformed", "deadlock", "deadlock at a depth", "race", "wrong", "right"]);
    #[cfg(feature = "smt")]
    met.at_least(
        10,
        &["smt-no-deadlock: Refuted", "smt-no-race: Refuted", "smt-completes: Refuted", "smt-completes: Proved"],
    );
}
