//! The choice: cheapest of all, on every connected topology, the same on any number of threads.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::*;
use rondo_compiler::auto::{Algorithm, Limits, Verdict, Watch, select, select_within};
use rondo_compiler::build::{self, BuildContext, BuildError};
use rondo_compiler::cost::evaluate;
use rondo_compiler::fabric::Fabric;
use rondo_ir::collective::{CollectiveKind, Contribution, CustomCollective};

fn kinds(n: u32) -> Vec<CollectiveKind> {
    vec![
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll { matrix: None },
        CollectiveKind::Broadcast { root: n - 1 },
        CollectiveKind::Reduce { root: 0 },
        CollectiveKind::Gather { root: 0 },
        CollectiveKind::Scatter { root: n / 2 },
        CollectiveKind::SendReceive { targets: (0..n).map(|p| Some((p + 1) % n)).collect() },
    ]
}

fn fabrics() -> Vec<(Fabric, u32)> {
    vec![
        (switch(1), 1),
        (switch(6), 6),
        (ring(2, true, true), 2),
        (ring(5, false, false), 5),
        (ring(8, true, false), 8),
        (mesh(7), 7),
        (torus(&[4, 4]), 16),
        (torus(&[2, 3, 1]), 6),
        (hypercube(3), 8),
        (caterpillar(7), 7),
        (hosts(2, 4), 8),
    ]
}

#[test]
fn the_choice_is_never_dearer_than_a_candidate() {
    for (fabric, n) in fabrics() {
        for kind in kinds(n) {
            for bytes in [4, 4 * 1024, 4 << 20] {
                let problem = problem(&fabric, collective(kind.clone(), n, bytes, false, false));
                let cx = BuildContext::new(&problem, &fabric);
                let case = format!("{} of {bytes} B on {}", kind.name(), fabric.topology.name());
                let selection = select(&cx, Algorithm::Auto, None).unwrap_or_else(|error| panic!("{case}: {error:?}"));
                assert_eq!(evaluate(&problem, &selection.schedule), selection.cost, "{case}");
                assert_eq!(selection.candidates[0].verdict, Verdict::Chosen);
                for info in build::algorithms().iter().filter(|info| info.serves(&kind)) {
                    let report = selection.candidates.iter().find(|c| c.name == info.name).unwrap();
                    for chunks in [1, 2, 8] {
                        let built = build::build(info.name, &cx.with_chunks(chunks));
                        assert_eq!(built.is_ok(), report.time.is_some(), "{case}: {}", info.name);
                        let Ok(schedule) = built else { continue };
                        let time = evaluate(&problem, &schedule).total;
                        if info.is_pipelined() && u64::from(chunks) <= bytes / 4 || chunks == 1 {
                            assert!(*report.time.as_ref().unwrap() <= time, "{case}: {} at {chunks}", info.name);
                            assert!(selection.cost.total <= time, "{case}: {} at {chunks}", info.name);
                        }
                    }
                }
                if n <= 8 {
                    replay(&problem, &selection.schedule).unwrap_or_else(|fault| panic!("{case}: {fault}"));
                }
            }
        }
    }
}

#[test]
fn the_choice_does_not_depend_on_threads() {
    for (fabric, n) in [(torus(&[4, 4]), 16), (hosts(2, 4), 8)] {
        for kind in kinds(n) {
            let problem = problem(&fabric, collective(kind, n, 4 * 5000, false, false));
            let run = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| select(&BuildContext::new(&problem, &fabric), Algorithm::Auto, None).unwrap())
            };
            let (one, four) = (run(1), run(4));
            assert_eq!(one.schedule, four.schedule);
            assert_eq!(format!("{:?}", one.candidates), format!("{:?}", four.candidates));
        }
    }
}

/// ReduceScatter + AllGather beats the topology paper's own choices for large vectors (models, 3.2).
#[test]
fn large_all_reduces_are_composed() {
    let fabric = torus(&[4, 4, 4]);
    let problem = problem(&fabric, collective(CollectiveKind::AllReduce, 64, 100_000_000, true, false));
    let selection = select(&BuildContext::new(&problem, &fabric), Algorithm::Auto, None).unwrap();
    assert_eq!(selection.candidates[0].name, "torus-rotated");
    let table = selection.candidates.iter().find(|c| c.name == "torus-gather-reduce").unwrap();
    assert_eq!(table.verdict, Verdict::Dearer);
    assert!(table.reason.ends_with("x as long"), "{}", table.reason);
}

/// Direct algorithms on a ring write down n² routes of n/4 hops: passed over above a limit, built when named.
/// Whoever watches hears of each candidate once, whether it is built or refused.
#[test]
fn a_watcher_hears_of_every_candidate() {
    struct Count(AtomicUsize, AtomicUsize);
    impl Watch for Count {
        fn begin(&self, _: &'static str, pieces: usize) {
            self.0.fetch_add(pieces, Ordering::Relaxed);
        }
        fn done(&self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    let fabric = ring(6, true, true);
    let problem = problem(&fabric, collective(CollectiveKind::AllReduce, 6, 4 * 24, false, false));
    let cx = BuildContext::new(&problem, &fabric);
    let count = Count(AtomicUsize::new(0), AtomicUsize::new(0));
    let selection = select_within(&cx, Algorithm::Auto, None, Limits::default(), &count).unwrap();
    assert!(selection.candidates.iter().any(|c| c.time.is_none()), "some are refused");
    assert_eq!(count.0.into_inner(), selection.candidates.len());
    assert_eq!(count.1.into_inner(), selection.candidates.len());
}

#[test]
fn what_is_too_large_is_passed_over() {
    let fabric = ring(24, true, true);
    let problem = problem(&fabric, collective(CollectiveKind::AllToAll { matrix: None }, 24, 4 * 24, false, false));
    let cx = BuildContext::new(&problem, &fabric);
    let limited = BuildContext { hop_limit: Some(1000), ..cx };
    assert!(matches!(build::build("direct", &limited), Err(BuildError::TooManyHops { limit: 1000, .. })));
    assert!(build::build("direct", &cx).is_ok());
    let verdict = |limits| {
        let selection = select_within(&cx, Algorithm::Auto, None, limits, &()).unwrap();
        let built = selection.candidates.iter().filter(|c| c.time.is_some()).count();
        (built, selection.candidates.into_iter().find(|c| c.name == "direct").unwrap().verdict)
    };
    assert_eq!(verdict(Limits::default()).1, Verdict::Chosen);
    // 24·23 routes of 6.26 hops at the mean are 3456 hops.
    let (built, direct) = verdict(Limits { hops: 3000, ..Limits::default() });
    assert!(1 <= built);
    assert!(matches!(direct, Verdict::Refused(BuildError::TooManyHops { limit: 3000, .. })), "{direct:?}");
    let (built, direct) = verdict(Limits { flows: 600, ..Limits::default() });
    assert!(1 <= built);
    assert_eq!(direct, Verdict::Chosen);
    // Where every algorithm is too large, the smallest is built.
    let (built, direct) = verdict(Limits { flows: 100, hops: 100 });
    assert_eq!((built, direct), (1, Verdict::Chosen));
}

#[test]
fn refusals_say_why() {
    let fabric = ring(6, true, false);
    let problem = problem(&fabric, collective(CollectiveKind::AllReduce, 6, 4096, true, false));
    let cx = BuildContext::new(&problem, &fabric);
    let select = |name| select(&cx, Algorithm::Named(name), None).map(|s| s.candidates.len());
    assert_eq!(
        select("halving-doubling").unwrap_err().to_string(),
        "halving-doubling does not fit: 6 ranks are no power of two; `bruck` does the same for any number"
    );
    assert_eq!(select("direct").unwrap_err(), BuildError::NoRoute { src: "n0".to_owned(), dst: "n2".to_owned() });
    let unknown = select("rign").unwrap_err();
    assert_eq!(unknown, BuildError::UnknownAlgorithm { name: "rign".to_owned(), nearest: Some("ring") });
    assert_eq!(unknown.to_diagnostic().help[0], "did you mean `ring`?");
    assert!(matches!(select("bruck"), Err(BuildError::NoRoute { .. })));
    assert!(matches!(select("torus-shortest"), Err(BuildError::DoesNotFit { .. })));
    assert_eq!(select("ring"), Ok(1));
    let cx = cx.with_chunks(0);
    assert_eq!(build::build("ring", &cx), Err(BuildError::TooManyChunks { given: 0 }));
    assert!(build::build("ring", &cx.with_chunks(u32::MAX)).is_err());
}

#[test]
fn a_broken_topology_is_named() {
    let whole = caterpillar(6);
    let mut builder = whole.topology.to_builder();
    builder.links[4].up = false;
    builder.links[5].up = false;
    let broken = fabric(builder, whole.shape);
    let problem = problem(&broken, collective(CollectiveKind::AllGather, 6, 4096, false, false));
    let error = select(&BuildContext::new(&problem, &broken), Algorithm::Auto, None).unwrap_err();
    assert!(matches!(error, BuildError::Disconnected { .. }), "{error:?}");
    assert_eq!(error.code(), "P024");
}

/// Output 0 of rank 0 is the sum of all inputs with its own counted twice; rank 1 swaps two slots.
#[test]
fn custom_collectives_are_built() {
    let n = 4;
    let c = |origin, slot| Contribution { origin, slot };
    let mut sum: Vec<_> = (0..n).map(|p| (c(p, 0), 1)).collect();
    sum[0].1 = 2;
    let custom = CustomCollective {
        input_slots: vec![2; n as usize],
        output: vec![
            vec![Some(sum), None],
            vec![Some(vec![(c(1, 1), 1)]), Some(vec![(c(1, 0), 1)])],
            vec![],
            vec![Some(vec![(c(2, 1), 1), (c(3, 0), 1)])],
        ],
    };
    for fabric in [switch(n), caterpillar(n)] {
        let problem = problem(&fabric, collective(CollectiveKind::Custom(custom.clone()), n, 64, false, false));
        for chunks in [1, 2] {
            let cx = BuildContext::new(&problem, &fabric);
            let selection = select(&cx, Algorithm::Auto, Some(chunks)).unwrap();
            replay(&problem, &selection.schedule).unwrap();
        }
    }
    let odd = problem(&switch(n), collective(CollectiveKind::Custom(custom), n, 4 * 3, false, false));
    let error = build::build("direct", &BuildContext::new(&odd, &switch(n))).unwrap_err();
    assert!(error.to_string().contains("choose a size that all slots share equally"), "{error}");
}
