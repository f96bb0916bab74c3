//! For each code a program that only it refutes.

use rondo_ir::collective::CollectiveKind;
use rondo_ir::program::{MoveOp, Operation, OperationKind, Program};

use super::build::*;
use crate::program::{CODES, ProgramOptions, verify_program};
use crate::{Answer, Claim};

/// Out of place, two ranks, one chunk; rank 1 gets what rank 0 has.
fn broadcast() -> Claim {
    claim(CollectiveKind::Broadcast { root: 0 }, 2, false, 1)
}

/// A right program for it, to be spoilt: threadblocks 0 of rank 0 and 1.
fn spoilt(spoil: impl FnOnce(&mut [Vec<Vec<Operation>>; 2])) -> Program {
    let mut ranks = [vec![vec![s(1, i(0), 1), cpy(i(0), o(0), 1)]], vec![vec![r(0, o(0), 1)]]];
    spoil(&mut ranks);
    program(1, 2, 1, ranks.to_vec())
}

#[track_caller]
fn refuted(code: &'static str, program: &Program) {
    assert_eq!(verdict(&broadcast(), program), (Answer::Refuted, vec![code]));
}

#[test]
fn the_unspoilt_program_is_right() {
    assert_eq!(verdict(&broadcast(), &spoilt(|_| {})), (Answer::Proved, Vec::new()));
}

#[test]
fn an_empty_loop_is_nothing_however_often() {
    let program = spoilt(|ranks| ranks[0][0].insert(0, repeat(u32::MAX, Vec::new())));
    assert_eq!(verdict(&broadcast(), &program), (Answer::Proved, Vec::new()));
    // Around it, the turns count.
    let program = spoilt(|ranks| ranks[0][0].insert(0, repeat(u32::MAX, vec![repeat(u32::MAX, Vec::new())])));
    assert_eq!(verdict(&broadcast(), &program), (Answer::Unknown, vec!["V111"]));
}

#[test]
fn v101_ranks_and_chunks_of_the_claim() {
    let mut other = spoilt(|_| {});
    other.chunks = 2;
    refuted("V101", &other);
    let mut other = spoilt(|_| {});
    other.ranks.pop();
    refuted("V101", &other);
    let mut other = spoilt(|_| {});
    other.fifo_depth = 0;
    refuted("V101", &other);
}

#[test]
fn v102_ranges_end_within_their_buffers() {
    for place in [i(0), o(0), sc(0)] {
        refuted("V102", &spoilt(|ranks| ranks[0][0].push(cpy(place, o(0), 2))));
    }
    refuted("V102", &spoilt(|ranks| ranks[0][0].push(cpy(sc((1 << 30) - 1), o(0), u32::MAX))));
    // Rank 1 has no input.
    refuted("V102", &spoilt(|ranks| ranks[0][0].push(get(&[(1, i(0))], sc(0), MoveOp::Copy, 1))));
    let outcome = located(&broadcast(), &spoilt(|ranks| ranks[1][0].push(cpy(o(0), sc(1), 1))));
    assert_eq!(
        outcome.findings[0].diagnostic.message,
        "r1 threadblock 0 instruction 1 (line 4) writes r1.s[1], but the scratch buffer of r1 has 1 slots, so slot 1 does \
         not exist"
    );
}

#[test]
fn v103_peers_exist_and_are_others() {
    refuted("V103", &spoilt(|ranks| ranks[0][0].push(s(2, i(0), 1))));
    refuted("V103", &spoilt(|ranks| ranks[0][0].push(s(0, i(0), 1))));
    refuted("V103", &spoilt(|ranks| ranks[0][0].push(put(i(0), &[(u32::MAX, sc(0))], MoveOp::Copy, 1))));
    refuted("V103", &spoilt(|ranks| ranks[0][0].push(signal(2, 0))));
}

#[test]
fn v104_one_threadblock_owns_an_end() {
    refuted(
        "V104",
        &spoilt(|ranks| {
            ranks[0].push(vec![s(1, i(0), 1)]);
            ranks[1][0].push(r(0, o(0), 1));
        }),
    );
}

#[test]
fn v105_sends_and_receives_pair_up() {
    refuted("V105", &spoilt(|ranks| ranks[0][0].push(s(1, i(0), 1))));
    refuted("V105", &spoilt(|ranks| ranks[0][0].push(r(1, sc(0), 1))));
    let two = claim(CollectiveKind::Broadcast { root: 0 }, 2, false, 2);
    let root = vec![s(1, i(0), 2), s(1, i(0), 1), cpy(i(0), o(0), 2)];
    let other = program(2, 8, 0, vec![vec![root], vec![vec![r(0, o(0), 1), r(0, o(0), 2)]]]);
    assert_eq!(verdict(&two, &other), (Answer::Refuted, vec!["V105"]));
}

#[test]
fn v106_dependencies_name_something_else() {
    for (tb, op) in [(1, 0), (0, 2), (0, 1), (u32::MAX, u32::MAX)] {
        refuted("V106", &spoilt(|ranks| ranks[0][0][1] = publish(after(cpy(i(0), o(0), 1), tb, op))));
    }
}

#[test]
fn v107_dependencies_are_published() {
    let waits = |published: bool| {
        spoilt(|ranks| {
            let operation = cpy(i(0), sc(0), 1);
            ranks[0].push(vec![if published { publish(operation) } else { operation }]);
            // What is published before does not count.
            ranks[0].push(vec![publish(nop()), nop()]);
            ranks[0][0].push(after(nop(), 1, 0));
        })
    };
    assert_eq!(verdict(&broadcast(), &waits(true)).0, Answer::Proved);
    refuted("V107", &waits(false));
    refuted(
        "V107",
        &spoilt(|ranks| {
            ranks[0].push(vec![publish(nop()), nop()]);
            ranks[0][0].push(after(nop(), 1, 1));
        }),
    );
}

#[test]
fn v108_barriers_open_for_all() {
    let with = |first: Vec<Operation>, second: Vec<Operation>| {
        spoilt(|ranks| {
            ranks[0].push(first);
            ranks[0].push(second);
        })
    };
    let both = || barrier(0, &[1, 2]);
    assert_eq!(verdict(&broadcast(), &with(vec![both()], vec![both()])).0, Answer::Proved);
    refuted("V108", &with(vec![both()], vec![both(), both()]));
    refuted("V108", &with(vec![both()], Vec::new()));
    refuted("V108", &with(vec![both()], vec![barrier(0, &[0, 2])]));
    refuted("V108", &with(vec![barrier(0, &[2])], vec![nop()]));
    refuted("V108", &with(vec![barrier(0, &[1, 9])], vec![nop()]));
    refuted("V108", &with(vec![barrier(0, &[1, 1])], vec![nop()]));
}

#[test]
fn v109_operations_have_a_value_and_slots() {
    let with = |operation: Operation| spoilt(|ranks| ranks[0][0].push(operation));
    refuted("V109", &with(cpy(i(0), sc(0), 0)));
    refuted("V109", &with(re(i(0), o(0), 0)));
    let mut nothing = cpy(i(0), sc(0), 1);
    if let OperationKind::Move { local, .. } = &mut nothing.kind {
        *local = None;
    }
    refuted("V109", &with(nothing));
    refuted("V109", &with(put(i(0), &[], MoveOp::Copy, 1)));
    refuted("V109", &with(get(&[], sc(0), MoveOp::Copy, 1)));
}

#[test]
fn v110_ranges_of_an_operation_do_not_overlap() {
    let three = claim(CollectiveKind::Broadcast { root: 0 }, 1, false, 3);
    let of =
        |operation: Operation| program(3, 1, 3, vec![vec![vec![cpy(i(0), o(0), 3), cpy(i(0), sc(0), 3), operation]]]);
    assert_eq!(verdict(&three, &of(cpy(sc(0), sc(1), 1))), (Answer::Proved, Vec::new()));
    assert_eq!(verdict(&three, &of(cpy(sc(0), sc(1), 2))), (Answer::Refuted, vec!["V110"]));
    assert_eq!(verdict(&three, &of(re(sc(1), sc(0), 2))), (Answer::Refuted, vec!["V110"]));
    let twice = put(sc(0), &[(0, sc(1)), (0, sc(1))], MoveOp::Copy, 1);
    assert_eq!(verdict(&three, &of(twice)), (Answer::Refuted, vec!["V110"]));
}

#[test]
fn v111_huge_programs_are_left_undecided() {
    let with = |operation: Operation| spoilt(|ranks| ranks[0][0].push(operation));
    let undecided = |program: Program| {
        assert_eq!(verdict(&broadcast(), &program), (Answer::Unknown, vec!["V111"]));
    };
    let mut nested = nop();
    for _ in 0..8 {
        nested = repeat(u32::MAX, vec![nested, nop()]);
    }
    undecided(with(nested));
    undecided(with(repeat(u32::MAX, vec![nop()])));
    let mut deep = nop();
    for _ in 0..100 {
        deep = repeat(1, vec![deep]);
    }
    undecided(with(deep));
    let mut scratch = spoilt(|_| {});
    scratch.ranks[0].scratch_slots = u32::MAX;
    undecided(scratch);
    let small = ProgramOptions { work_limit: 2, ..ProgramOptions::default() };
    assert_eq!(verify_program(broadcast(), spoilt(|_| {}), &small).answer(), Answer::Unknown);
}

#[test]
fn v112_waits_can_be_satisfied() {
    refuted("V112", &spoilt(|ranks| ranks[1][0].push(wait(0, 1))));
    refuted(
        "V112",
        &spoilt(|ranks| {
            ranks[0][0].push(repeat(2, vec![signal(1, 0)]));
            ranks[1][0].push(repeat(2, vec![wait_stride(0, 1, u64::MAX)]));
        }),
    );
}

#[test]
fn v113_signals_that_nobody_waits_for_are_a_warning() {
    let spare = spoilt(|ranks| ranks[0][0].push(signal(1, 0)));
    assert_eq!(verdict(&broadcast(), &spare), (Answer::Proved, vec!["V113"]));
}

#[test]
fn v114_cycles_of_dependencies_hang() {
    refuted(
        "V114",
        &spoilt(|ranks| {
            ranks[0].push(vec![publish(after(nop(), 2, 0))]);
            ranks[0].push(vec![publish(after(nop(), 1, 0))]);
        }),
    );
    // Both receive first.
    refuted(
        "V114",
        &spoilt(|ranks| {
            ranks[0][0].insert(0, r(1, sc(0), 1));
            ranks[1][0].push(s(0, o(0), 1));
        }),
    );
    let late = spoilt(|ranks| ranks[0][0].extend([after(nop(), 0, 3), publish(nop())]));
    refuted("V114", &late);
}

#[test]
fn v117_races_name_both_instructions() {
    let racy = spoilt(|ranks| {
        ranks[1][0].push(cpy(o(0), sc(0), 1));
        ranks[1].push(vec![get(&[(0, i(0))], sc(0), MoveOp::Copy, 1)]);
    });
    refuted("V117", &racy);
    let outcome = located(&broadcast(), &racy);
    let message = &outcome.findings[0].diagnostic.message;
    assert!(message.contains("(line 4)") && message.contains("(line 5)") && message.contains("r1.s[0]"), "{message}");
}

#[test]
fn v118_undefined_places_are_not_read() {
    refuted("V118", &spoilt(|ranks| ranks[0][0].push(cpy(sc(0), sc(0), 1))));
    refuted("V118", &spoilt(|ranks| ranks[0][0].insert(1, re(i(0), o(0), 1))));
    refuted("V118", &spoilt(|ranks| ranks[0][0][0] = s(1, o(0), 1)));
}

#[test]
fn v119_the_input_belongs_to_the_caller() {
    refuted("V119", &spoilt(|ranks| ranks[0][0].push(cpy(o(0), i(0), 1))));
    let in_place = claim(CollectiveKind::Broadcast { root: 0 }, 2, true, 1);
    let same = spoilt(|ranks| ranks[0][0].push(cpy(o(0), i(0), 1)));
    assert_eq!(verdict(&in_place, &same), (Answer::Proved, Vec::new()));
}

#[test]
fn v120_results_name_the_instruction() {
    let sum = claim(CollectiveKind::AllReduce, 2, false, 1);
    let of = |extra: Option<Operation>| {
        let blocks = |me: u32| {
            let mut list = vec![s(1 - me, i(0), 1), cpy(i(0), o(0), 1), rrc(1 - me, o(0), o(0), 1)];
            list.extend(extra.clone().filter(|_| me == 1));
            vec![list]
        };
        program(1, 2, 0, (0..2).map(blocks).collect())
    };
    assert_eq!(verdict(&sum, &of(None)), (Answer::Proved, Vec::new()));
    let twice = located(&sum, &of(Some(re(i(0), o(0), 1))));
    assert_eq!(
        twice.findings[0].diagnostic.message,
        "r1.o[0] holds r1.i[0] 2 times; r1 threadblock 0 instruction 3 (line 7) adds what is there already"
    );
    let lost = located(&sum, &of(Some(cpy(i(0), o(0), 1))));
    assert_eq!(
        lost.findings[0].diagnostic.message,
        "r1.o[0] lacks r0.i[0]; r1 threadblock 0 instruction 3 (line 7) writes it last"
    );
    assert_eq!(lost.findings[0].locations[0].0.span.line, 7);
    assert_eq!(verdict(&sum, &of(Some(cpy(i(0), o(0), 1)))), (Answer::Refuted, vec!["V120"]));
    let never = located(&broadcast(), &spoilt(|ranks| ranks[0][0].truncate(1)));
    assert_eq!(never.findings[0].diagnostic.message, "r0.o[0] is never written");
}

#[test]
fn counts_above_one_matter_only_where_they_change_the_result() {
    use rondo_ir::collective::{Collective, ReduceOperator};
    let with = |operator| {
        let spec = collective(CollectiveKind::AllReduce, 1, true).to_spec();
        let spec = rondo_ir::collective::CollectiveSpec { operator, ..spec };
        Claim { collective: Collective::new(spec).unwrap(), chunks: 1 }
    };
    let doubled = program(1, 1, 0, vec![vec![vec![re(o(0), o(0), 1)]]]);
    assert_eq!(verdict(&with(ReduceOperator::Sum), &doubled), (Answer::Refuted, vec!["V120"]));
    assert_eq!(verdict(&with(ReduceOperator::Max), &doubled), (Answer::Proved, Vec::new()));
    // A count that runs over 64 bits is no multiple of anything.
    let often = program(1, 1, 0, vec![vec![vec![repeat(70, vec![re(o(0), o(0), 1)])]]]);
    assert_eq!(verdict(&with(ReduceOperator::Sum), &often), (Answer::Refuted, vec!["V120"]));
}

#[test]
fn codes_are_sorted_and_explained() {
    assert!(CODES.windows(2).all(|pair| pair[0].code < pair[1].code));
    assert!(CODES.iter().all(|entry| !entry.title.is_empty() && 40 < entry.explanation.len()));
}

/// Notes of the first finding with the code.
fn notes(claim: &Claim, program: &Program, code: &str) -> Vec<String> {
    let outcome = located(claim, program);
    let finding = outcome.findings.iter().find(|finding| finding.diagnostic.code == code).unwrap();
    finding.diagnostic.notes.clone()
}

#[test]
fn a_race_comes_with_a_run_that_goes_wrong() {
    // Threadblock 1 copies to the output what threadblock 0 is still to receive.
    let two = claim(CollectiveKind::Broadcast { root: 0 }, 2, false, 1);
    let other = |wait: bool| {
        let copy = cpy(sc(0), o(0), 1);
        let second = vec![if wait { after(copy, 0, 0) } else { copy }];
        let root = vec![s(1, i(0), 1), cpy(i(0), o(0), 1)];
        program(1, 8, 1, vec![vec![root], vec![vec![publish(r(0, sc(0), 1))], second]])
    };
    assert_eq!(verdict(&two, &other(true)).0, Answer::Proved);
    let notes = notes(&two, &other(false), "V117").join("\n");
    // The total order may have either of them first; the run that is told must have the copy first.
    assert!(notes.contains("a run that goes wrong"), "{notes}");
    assert!(notes.contains("r1.s[0], which holds nothing yet") || notes.contains("what then comes out"), "{notes}");
}

#[test]
fn two_additions_at_once_lose_one() {
    // Both threadblocks of rank 1 add to o[0]; either order gives the sum.
    let claim = claim(CollectiveKind::Reduce { root: 1 }, 3, false, 1);
    let send = |_: u32| vec![vec![s(1, i(0), 1)]];
    let add = |peer: u32, slot: u32| vec![r(peer, sc(slot), 1), after(re(sc(slot), o(0), 1), 2, 0)];
    let root = vec![add(0, 0), add(2, 1), vec![publish(cpy(i(0), o(0), 1))]];
    let notes = notes(&claim, &program(1, 8, 2, vec![send(0), root, send(2)]), "V117").join("\n");
    assert!(notes.contains("one addition is lost"), "{notes}");
    let ordered = {
        let mut second = add(2, 1);
        second[1] = after(re(sc(1), o(0), 1), 0, 1);
        let mut first = add(0, 0);
        first[1] = publish(first[1].clone());
        vec![first, second, vec![publish(cpy(i(0), o(0), 1))]]
    };
    assert_eq!(verdict(&claim, &program(1, 8, 2, vec![send(0), ordered, send(2)])).0, Answer::Proved);
}

#[test]
fn a_wrong_result_comes_with_the_shortest_run() {
    let two = claim(CollectiveKind::Broadcast { root: 0 }, 2, false, 2);
    let root = vec![s(1, i(1), 1), s(1, i(0), 1), cpy(i(0), o(0), 2)];
    let other = program(2, 8, 0, vec![vec![root], vec![vec![r(0, o(0), 1), r(0, o(1), 1)]]]);
    let notes = notes(&two, &other, "V120").join("\n");
    // To the first receive it takes the first send and nothing else.
    assert!(notes.contains("the shortest run to r1 threadblock 0 instruction 0"), "{notes}");
    assert!(notes.contains(": r0 threadblock 0 instruction 0"), "{notes}");
}
