//! Schedules whose exact price the models give in closed form (section 17 of the seed papers' models): equalities of
//! rationals, with β = 20 ps/B, α_p = 1 us, γ = 1 ps/B.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};
use rondo_compiler::build::{self, BuildContext};
use rondo_compiler::cost::{Cost, evaluate};
use rondo_compiler::fabric::Fabric;
use rondo_compiler::topology::spec::{ClosSpec, LinkRates};
use rondo_compiler::topology::{clos, grid, mesh, ring, switch, torus};
use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, DataType, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::problem::Problem;
use rondo_ir::units::{Bytes, Delay, PerByte, Time};

const LINK: fn() -> LinkRates =
    || LinkRates { bandwidth: "50 GB/s".parse().unwrap(), latency: Delay::from_nanoseconds(1000) };

fn seconds(numerator: i128, denominator: i128) -> BigRational {
    BigRational::new(BigInt::from(numerator), BigInt::from(denominator))
}

/// Seconds of `hops` hops.
fn alpha(hops: u32) -> BigRational {
    seconds(i128::from(hops), 1_000_000)
}

/// Seconds of that many bytes on a link.
fn beta(bytes: BigRational) -> BigRational {
    bytes / BigInt::from(50_000_000_000_i64)
}

fn whole(bytes: u64) -> BigRational {
    seconds(i128::from(bytes), 1)
}

fn is(time: &Time, expected: &BigRational, what: &str) {
    assert_eq!(time.seconds(), expected, "{what}");
}

fn price(fabric: &Fabric, kind: CollectiveKind, n: u32, buffer: u64, startup: Delay, name: &str) -> Cost {
    let collective = Collective::new(CollectiveSpec {
        kind,
        ranks: n,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(buffer),
        in_place: false,
        input_writable: false,
    })
    .unwrap();
    let cost = CostModel {
        startup,
        reduce_cost: PerByte::from_femtoseconds(1000),
        copy_cost: PerByte::ZERO,
        synchronisation: Delay::ZERO,
    };
    let problem = Arc::new(Problem::single(Arc::clone(&fabric.topology), collective, cost).unwrap());
    let schedule = build::build(name, &BuildContext::new(&problem, fabric)).unwrap();
    evaluate(&problem, &schedule)
}

fn a_clos(radix: u32) -> Fabric {
    clos::clos(&ClosSpec {
        tiers: 3,
        radix,
        nodes: None,
        oversubscription: Ratio::from(1),
        rail_optimized: false,
        per_host: 1,
        link: LINK(),
        uplink: LINK(),
        host: None,
    })
    .unwrap()
}

const ALL_TO_ALL: CollectiveKind = CollectiveKind::AllToAll { matrix: None };

/// L(βm + γm) exactly; the latency is that of the rounds: 2 hops in a rack, 4 in a pod, 6 beyond.
#[test]
fn clos_all_reduce_by_recursive_doubling() {
    for (radix, n, hops) in [(4, 16, 2 + 4 + 6 + 6), (8, 128, 2 * 2 + 2 * 4 + 3 * 6)] {
        let m = 4096 * u64::from(n);
        let cost = price(&a_clos(radix), CollectiveKind::AllReduce, n, m, Delay::ZERO, "recursive-doubling");
        let rounds = BigInt::from(n.trailing_zeros());
        is(&cost.bandwidth(), &(beta(whole(m)) * &rounds), "bandwidth");
        is(&cost.reduce(), &(seconds(i128::from(m), 1_000_000_000_000) * &rounds), "reduction");
        is(&cost.latency(), &alpha(hops), "latency");
    }
}

/// hα + βm(n−1) in one step, m the block.
#[test]
fn clos_all_gather_and_all_to_all_in_one_step() {
    for (radix, n) in [(4, 16), (8, 128)] {
        let block = 4096;
        for kind in [CollectiveKind::AllGather, ALL_TO_ALL] {
            let cost = price(&a_clos(radix), kind, n, block * u64::from(n), Delay::ZERO, "direct");
            is(&cost.total, &(alpha(6) + beta(whole(block * u64::from(n - 1)))), "time");
            assert_eq!(cost.steps.iter().filter(|step| 0 < step.hops).count(), 1);
        }
    }
}

/// D(α + βm) without γ, even sides.
#[test]
fn torus_all_reduce_of_table_2() {
    for sides in [&[4][..], &[8], &[2, 4], &[4, 4], &[4, 6], &[2, 2, 2], &[4, 4, 4]] {
        let (n, d): (u32, u32) = (sides.iter().product(), sides.iter().map(|side| side / 2).sum());
        let m = 4096 * u64::from(n);
        let fabric = torus::torus(sides, LINK()).unwrap();
        let cost = price(&fabric, CollectiveKind::AllReduce, n, m, Delay::ZERO, "torus-gather-reduce");
        is(&cost.latency(), &alpha(d), "latency");
        is(&cost.bandwidth(), &(beta(whole(m)) * BigInt::from(d)), "bandwidth");
        // One rank adds Σ(sᵢ−1) vectors one after the other; the paper's log₂ n is out of reach.
        let adds: u64 = sides.iter().map(|&side| u64::from(side - 1)).sum();
        is(&cost.reduce(), &seconds(i128::from(adds * m), 1_000_000_000_000), "reduction");
    }
}

/// Dα + βm(n−1)/(2k), m the block, equal sides; reduce_scatter the same, all_reduce both.
#[test]
fn rotated_torus_reaches_table_2() {
    for sides in [&[3][..], &[4], &[8], &[2, 2], &[3, 3], &[4, 4], &[2, 2, 2], &[3, 3, 3], &[4, 4, 4]] {
        let (n, d): (u32, u32) = (sides.iter().product(), sides.iter().map(|side| side / 2).sum());
        let k = sides.len() as u64;
        let block = 2 * k * 4 * 60;
        let fabric = torus::torus(sides, LINK()).unwrap();
        let phase = alpha(d) + beta(whole(block * u64::from(n - 1)) / BigInt::from(2 * k));
        let buffer = block * u64::from(n);
        let gather = price(&fabric, CollectiveKind::AllGather, n, buffer, Delay::ZERO, "torus-rotated");
        is(&gather.total, &phase, "all_gather");
        let scatter = price(&fabric, CollectiveKind::ReduceScatter, n, buffer, Delay::ZERO, "torus-rotated");
        let gamma = seconds(i128::from(block * u64::from(n - 1)), 1_000_000_000_000);
        is(&scatter.total, &(&phase + &gamma), "reduce_scatter");
        let all = price(&fabric, CollectiveKind::AllReduce, n, buffer, Delay::ZERO, "torus-rotated");
        is(&all.total, &(&phase + &phase + &gamma), "all_reduce");
    }
}

/// Dα + βm·max(n·s/8 for even s, n(s²−1)/(8s) for odd s), m the block: also unequal sides, where the longest rules.
#[test]
fn torus_all_to_all_meets_the_bisection_bound() {
    for sides in [&[4][..], &[5], &[6], &[2, 2], &[4, 4], &[4, 8], &[3, 3], &[6, 4], &[2, 4, 4], &[4, 4, 4]] {
        let (n, d): (u32, u32) = (sides.iter().product(), sides.iter().map(|side| side / 2).sum());
        let block = 8 * 8 * 15_u64;
        let load = sides.iter().map(|&side| {
            let (s, n) = (u64::from(side), u64::from(n));
            if s % 2 == 0 { Ratio::new(n * s, 8) } else { Ratio::new(n * (s * s - 1), 8 * s) }
        });
        let load = load.max().unwrap() * block;
        let expected = alpha(d) + beta(seconds((*load.numer()).into(), (*load.denom()).into()));
        let fabric = torus::torus(sides, LINK()).unwrap();
        for name in ["torus-shortest", "direct"] {
            let cost = price(&fabric, ALL_TO_ALL, n, block * u64::from(n), Delay::ZERO, name);
            is(&cost.total, &expected, name);
        }
    }
}

/// Eq. 5: (n−1)(α_s + α_p) + (n−1)/n·mβ a phase, also on a ring that turns one way only.
#[test]
fn ring_is_equation_5() {
    for n in [2_u32, 3, 5, 8, 16] {
        for both in [true, false] {
            let fabric = ring::ring(n, both, LINK()).unwrap();
            let m = 4 * u64::from(n) * 100;
            let startup = Delay::from_nanoseconds(3000);
            let phase = seconds(4 * i128::from(n - 1), 1_000_000) + beta(whole(m / u64::from(n) * u64::from(n - 1)));
            let gamma = seconds(i128::from(m / u64::from(n) * u64::from(n - 1)), 1_000_000_000_000);
            if n == 2 && both {
                // Two parallel links each way: the router splits, which halves the bandwidth term.
                continue;
            }
            is(&price(&fabric, CollectiveKind::AllGather, n, m, startup, "ring").total, &phase, "all_gather");
            let scatter = price(&fabric, CollectiveKind::ReduceScatter, n, m, startup, "ring").total;
            is(&scatter, &(&phase + &gamma), "reduce_scatter");
            let all = price(&fabric, CollectiveKind::AllReduce, n, m, startup, "ring").total;
            is(&all, &(&phase + &phase + &gamma), "all_reduce");
        }
    }
}

/// Both ways round: the bandwidth term is the bound, (n−1)/2 blocks a phase over each of the two links.
#[test]
fn two_way_ring_reaches_the_bandwidth_bound() {
    for n in [2_u32, 3, 4, 5, 8, 9, 16] {
        let fabric = ring::ring(n, true, LINK()).unwrap();
        let m = 8 * u64::from(n) * 100;
        let phase = beta(whole(m / u64::from(n) * u64::from(n - 1) / 2));
        for (kind, phases) in
            [(CollectiveKind::AllGather, 1), (CollectiveKind::ReduceScatter, 1), (CollectiveKind::AllReduce, 2)]
        {
            let cost = price(&fabric, kind, n, m, Delay::ZERO, "ring-two-way");
            is(&cost.bandwidth(), &(&phase * BigInt::from(phases)), "bandwidth");
            is(&cost.latency(), &alpha(phases * (n / 2)), "latency");
        }
    }
}

/// Eqs. 2 and 3: h = c = 2^i in step i; Σ = α_p(n−1) + α_s·L + (L/2)·mβ. On a ring the last step pairs antipodes, whose
/// two ways a router may use (which halves its congestion); a row without wrap-around has one way, as the paper counts.
#[test]
fn halving_is_equation_3() {
    for n in [4_u32, 8, 16] {
        // A row has no way round, so distances up to 2^(L−1) are walked one way, as the paper has it.
        let fabric = grid::grid(&[n], LINK()).unwrap();
        let m = 4 * u64::from(n) * 64;
        let startup = Delay::from_nanoseconds(3000);
        let cost = price(&fabric, CollectiveKind::ReduceScatter, n, m, startup, "halving-doubling");
        let rounds = n.trailing_zeros();
        is(&cost.latency(), &alpha(n - 1), "latency");
        is(&cost.startup(), &seconds(3 * i128::from(rounds), 1_000_000), "start-up");
        let half = beta(whole(m)) * BigInt::from(rounds) / BigInt::from(2);
        is(&cost.bandwidth(), &half, "bandwidth");
        // all_reduce is free to lay its blocks so that a pair exchanges one flow; then c is that of the paper too.
        let all = price(&fabric, CollectiveKind::AllReduce, n, m, startup, "halving-doubling");
        is(&all.bandwidth(), &(&half + &half), "bandwidth of both phases");
        let steps: Vec<_> = all.steps.iter().filter(|step| 0 < step.hops).collect();
        assert_eq!(steps.len(), 2 * rounds as usize);
        for (i, step) in steps[..rounds as usize].iter().enumerate() {
            assert_eq!((step.hops, step.congestion), (1 << i, Some(Ratio::from(1 << i))));
        }
    }
}

/// Eq. 4 without reconfiguration, on a full crossbar: L(α_s + α_p) + (n−1)/n·mβ.
#[test]
fn halving_on_a_mesh_is_equation_4() {
    for n in [2_u32, 4, 8, 16] {
        let m = 4 * u64::from(n) * 64;
        let fabric = mesh::mesh(n, LINK()).unwrap();
        let startup = Delay::from_nanoseconds(3000);
        let cost = price(&fabric, CollectiveKind::AllGather, n, m, startup, "halving-doubling");
        let rounds = i128::from(n.trailing_zeros());
        let bytes = whole(m / u64::from(n) * u64::from(n - 1));
        is(&cost.total, &(seconds(4 * rounds, 1_000_000) + beta(bytes)), "time");
    }
}

/// On a switch a direct all_to_all, all_gather and reduce_scatter keep every port busy for exactly what it must carry.
#[test]
fn direct_on_a_switch_is_bandwidth_optimal() {
    for n in [2_u32, 3, 7, 16] {
        let fabric = switch::switch(n, LINK()).unwrap();
        let m = 4 * u64::from(n) * 100;
        for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter, ALL_TO_ALL] {
            let cost = price(&fabric, kind, n, m, Delay::ZERO, "direct");
            is(&cost.bandwidth(), &beta(whole(m / u64::from(n) * u64::from(n - 1))), "bandwidth");
            is(&cost.latency(), &alpha(2), "latency");
        }
    }
}

/// A pipelined chain of k chunks over n ranks takes n−2+k steps of m/k.
#[test]
fn chain_is_pipelined() {
    let (n, k) = (5_u32, 8_u32);
    let fabric = ring::ring(n, true, LINK()).unwrap();
    let m = 4 * 8 * 100;
    let collective = Collective::new(CollectiveSpec {
        kind: CollectiveKind::Broadcast { root: 2 },
        ranks: n,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(m),
        in_place: true,
        input_writable: false,
    })
    .unwrap();
    let problem = Arc::new(Problem::single(Arc::clone(&fabric.topology), collective, CostModel::FREE).unwrap());
    let cx = BuildContext::new(&problem, &fabric).with_chunks(k);
    let cost = evaluate(&problem, &build::build("chain", &cx).unwrap());
    let steps = n - 2 + k;
    is(&cost.total, &(alpha(steps) + beta(whole(m / u64::from(k) * u64::from(steps)))), "time");
}
