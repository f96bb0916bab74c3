//! Programs that are right, and how little makes them wrong.

use rondo_ir::collective::CollectiveKind;
use rondo_ir::program::{MoveOp, Program};

use super::build::*;
use crate::Answer;

/// Proved without any finding.
#[track_caller]
fn proved(claim: &crate::Claim, program: &Program) {
    let outcome = located(claim, program).outcome;
    assert!(outcome.verified.is_some(), "{:#?}\n{:#?}", outcome.checks, outcome.findings);
    assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
}

#[test]
fn the_fused_ring_needs_depth_two() {
    // formats.md 1.6: finishes with depth 2 and deadlocks with depth 1.
    let claim = claim(CollectiveKind::AllReduce, 4, true, 4);
    proved(&claim, &ring(4, 2));
    assert!(detail(&claim, &ring(4, 2), "no-deadlock").starts_with("safe from FIFO depth 2;"));
    let outcome = located(&claim, &ring(4, 1));
    let finding = &outcome.findings[0];
    assert_eq!((outcome.outcome.answer(), finding.diagnostic.code), (Answer::Refuted, "V115"));
    assert_eq!(
        finding.diagnostic.message,
        "deadlock at FIFO depth 1: r0 threadblock 0 instruction 1 (line 2) and 3 other threadblocks wait for each \
         other; 4 of 4 do not finish"
    );
    assert_eq!(finding.locations.len(), 4);
    assert_eq!(finding.locations[0].0.span.line, 2);
    assert_eq!(outcome.outcome.findings.len(), 1, "the result is right for all that");
}

#[test]
fn a_whole_vector_exchange_needs_room_for_each_slot_when_split() {
    // Both ranks send three slots, then receive: one message each, or three.
    let blocks = |me: u32| vec![vec![s(1 - me, i(0), 3), cpy(i(0), o(0), 3), rrc(1 - me, o(0), o(0), 3)]];
    let claim = claim(CollectiveKind::AllReduce, 2, false, 3);
    let of_depth = |depth| program(3, depth, 0, (0..2).map(blocks).collect());
    proved(&claim, &of_depth(3));
    assert!(
        detail(&claim, &of_depth(3), "no-deadlock")
            .starts_with("safe from FIFO depth 1, from 3 when a runtime splits messages into single slots")
    );
    assert_eq!(verdict(&claim, &of_depth(2)), (Answer::Refuted, vec!["V116"]));
    // With a threadblock to send and one to receive nothing has to fit.
    let blocks = |me: u32| vec![vec![s(1 - me, i(0), 3)], vec![cpy(i(0), o(0), 3), rrc(1 - me, o(0), o(0), 3)]];
    let apart = program(3, 1, 0, (0..2).map(blocks).collect());
    proved(&claim, &apart);
}

#[test]
fn put_signal_and_wait_make_an_all_gather() {
    let blocks = |me: u32| {
        let mut list = vec![cpy(i(0), o(me), 1)];
        for peer in (0..3).filter(|&peer| peer != me) {
            list.push(put(i(0), &[(peer, o(me))], MoveOp::Copy, 1));
            list.push(signal(peer, me));
        }
        list.extend((0..3).filter(|&peer| peer != me).map(|peer| wait(peer, 1)));
        vec![list]
    };
    let claim = claim(CollectiveKind::AllGather, 3, false, 1);
    proved(&claim, &program(1, 1, 0, (0..3).map(blocks).collect()));
}

#[test]
fn a_put_needs_a_signal_before_it_is_read() {
    // Rank 1 relays what rank 0 puts into its scratch.
    let claim = claim(CollectiveKind::Broadcast { root: 0 }, 2, false, 1);
    let of = |waits: bool| {
        let mut second = if waits { vec![wait(7, 1)] } else { Vec::new() };
        second.push(cpy(sc(0), o(0), 1));
        let first = vec![put(i(0), &[(1, sc(0))], MoveOp::Copy, 1), signal(1, 7), cpy(i(0), o(0), 1)];
        program(1, 1, 1, vec![vec![first], vec![second]])
    };
    proved(&claim, &of(true));
    let (answer, codes) = verdict(&claim, &of(false));
    assert_eq!(answer, Answer::Refuted);
    assert!(codes.contains(&"V117"), "{codes:?}");
}

#[test]
fn a_counter_of_several_signallers_orders_only_its_total() {
    // Two ranks put into scratch of rank 2, which adds when the counter has seen both, or only one of them.
    let claim = claim(CollectiveKind::Reduce { root: 2 }, 3, false, 1);
    let of = |value| {
        let send = |me: u32| vec![vec![put(i(0), &[(2, sc(me))], MoveOp::Copy, 1), signal(2, 0)]];
        let root = vec![cpy(i(0), o(0), 1), wait(0, value), re(sc(0), o(0), 1), re(sc(1), o(0), 1)];
        program(1, 1, 2, vec![send(0), send(1), vec![root]])
    };
    proved(&claim, &of(2));
    let (answer, codes) = verdict(&claim, &of(1));
    assert_eq!((answer, codes), (Answer::Refuted, vec!["V113", "V117"]));
}

#[test]
fn multimem_get_and_multicast_put_reduce_in_place() {
    // Rank r adds slot r of everybody, itself too, and stores it everywhere, itself too; barriers by signals.
    let blocks = |me: u32| {
        let everyone: Vec<_> = (0..3).map(|peer| (peer, o(me))).collect();
        let mut list = Vec::new();
        for round in 0..2 {
            if round == 1 {
                list.push(get(&everyone, o(me), MoveOp::Copy, 1));
                list.push(put(o(me), &everyone, MoveOp::Copy, 1));
            }
            list.extend((0..3).map(|peer| signal(peer, round)));
            list.push(wait(round, 3));
        }
        vec![list]
    };
    let claim = claim(CollectiveKind::AllReduce, 3, true, 3);
    proved(&claim, &program(3, 1, 0, (0..3).map(blocks).collect()));
}

#[test]
fn a_barrier_orders_threadblocks() {
    let claim = claim(CollectiveKind::AllGather, 1, false, 2);
    let of = |first: Vec<_>, second: Vec<_>| program(2, 1, 2, vec![vec![first, second]]);
    let (copy_in, copy_out) = (cpy(i(0), sc(0), 2), cpy(sc(0), o(0), 2));
    let pair = [0, 1];
    proved(&claim, &of(vec![copy_in.clone(), barrier(3, &pair)], vec![barrier(3, &pair), copy_out.clone()]));
    let (answer, codes) = verdict(&claim, &of(vec![barrier(3, &pair), copy_in], vec![barrier(3, &pair), copy_out]));
    assert_eq!(answer, Answer::Refuted);
    assert!(codes.contains(&"V117"), "{codes:?}");
}

#[test]
fn loops_run_their_body_and_move_their_waits() {
    // One scratch slot, filled three times; each filling waits until the one before was taken.
    let claim = claim(CollectiveKind::Broadcast { root: 0 }, 2, false, 1);
    let of = |stride| {
        let producer = vec![
            cpy(i(0), o(0), 1),
            repeat(3, vec![wait_stride(0, 0, 1), put(i(0), &[(1, sc(0))], MoveOp::Copy, 1), signal(1, 0)]),
        ];
        let consumer = vec![repeat(3, vec![wait_stride(0, 1, stride), cpy(sc(0), o(0), 1), signal(0, 0)])];
        program(1, 1, 1, vec![vec![producer], vec![consumer]])
    };
    let (answer, codes) = verdict(&claim, &of(1));
    // The last signal of the consumer is not waited for.
    assert_eq!((answer, codes), (Answer::Proved, vec!["V113"]));
    let (answer, codes) = verdict(&claim, &of(0));
    assert_eq!(answer, Answer::Refuted);
    assert!(codes.contains(&"V117"), "{codes:?}");
}

#[test]
fn dependencies_order_a_sender_and_a_receiver() {
    // A relay: threadblock 0 receives, threadblock 1 sends on.
    let claim = claim(CollectiveKind::Broadcast { root: 0 }, 3, false, 2);
    let relay = |ordered: bool| {
        let receive = publish(r(0, o(0), 2));
        let send = s(2, o(0), 2);
        let send = if ordered { after(send, 0, 0) } else { send };
        program(
            2,
            2,
            0,
            vec![
                vec![vec![s(1, i(0), 2), cpy(i(0), o(0), 2)]],
                vec![vec![receive], vec![send]],
                vec![vec![r(1, o(0), 2)]],
            ],
        )
    };
    proved(&claim, &relay(true));
    let outcome = located(&claim, &relay(false));
    let race = outcome.findings.iter().find(|finding| finding.diagnostic.code == "V117").unwrap();
    assert!(race.diagnostic.message.starts_with("r1 threadblock "), "{}", race.diagnostic.message);
    let lines: Vec<_> = race.locations.iter().map(|(location, _)| location.span.line).collect();
    assert!(lines == [3, 4] || lines == [4, 3], "{lines:?}");
}

#[test]
fn an_order_through_another_rank_counts() {
    // Threadblock 1 of rank 0 overwrites what threadblock 0 has sent, after an answer of rank 1.
    let claim = claim(CollectiveKind::AllReduce, 2, true, 1);
    let of = |answered: bool| {
        let first = vec![s(1, o(0), 1)];
        let second = vec![r(1, o(0), 1)];
        let other = if answered { vec![rrcs(0, o(0), 0, 1)] } else { vec![s(0, o(0), 1), rrc(0, o(0), o(0), 1)] };
        program(1, 2, 0, vec![vec![first, second], vec![other]])
    };
    proved(&claim, &of(true));
    let (answer, codes) = verdict(&claim, &of(false));
    assert_eq!(answer, Answer::Refuted);
    assert!(codes.contains(&"V117"), "{codes:?}");
}

#[test]
fn one_rank_and_nothing_to_do() {
    let claim = claim(CollectiveKind::AllReduce, 1, true, 1);
    proved(&claim, &program(1, 1, 0, vec![Vec::new()]));
}

#[test]
fn all_aliases_of_the_in_place_collectives_are_known() {
    // Direct all-gather and reduce-scatter of two ranks, under the names that files use.
    let gather = claim(CollectiveKind::AllGather, 2, true, 2);
    let blocks = |me: u32| vec![vec![s(1 - me, i(0), 2)], vec![r(1 - me, o(2 * (1 - me)), 2)]];
    proved(&gather, &program(2, 2, 0, (0..2).map(blocks).collect()));
    let scatter = claim(CollectiveKind::ReduceScatter, 2, true, 2);
    let blocks = |me: u32| vec![vec![s(1 - me, i(2 * (1 - me)), 2)], vec![rrc(1 - me, i(2 * me), o(0), 2)]];
    proved(&scatter, &program(2, 2, 0, (0..2).map(blocks).collect()));
}
