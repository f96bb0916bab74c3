//! Schedules whose exact price the models give in closed form (section 17 of the seed papers' models): equalities of
//! rationals, with β = 20 ps/B, α_p = 1 us, γ = 1 ps/B.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};
use rondo_compiler::build::{self, BuildContext};
use rondo_compiler::cost::{Cost, evaluate};
use rondo_compiler::fabric::Fabric;
use rondo_compiler::topology::spec::{ClosSpec, LinkRates, ScaleUp, ScaleUpKind};
use rondo_compiler::topology::{clos, grid, mesh, ring, switch, torus};
use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, DataType, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;
use rondo_ir::topology::NodeKind;
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
        overlap_reconfiguration: false,
    };
    let problem = Arc::new(Problem::single(Arc::clone(&fabric.topology), collective, cost).unwrap());
    let schedule = build::build(name, &BuildContext::new(&problem, fabric)).unwrap();
    evaluate(&problem, &schedule)
}

fn clos_spec(radix: u32) -> ClosSpec {
    ClosSpec {
        tiers: 3,
        radix,
        nodes: None,
        oversubscription: Ratio::from(1),
        rail_optimized: false,
        per_host: 1,
        link: LINK(),
        uplink: LINK(),
        host: None,
        bundled: false,
        scale_up: None,
    }
}

fn a_clos(radix: u32) -> Fabric {
    clos::clos(&clos_spec(radix)).unwrap()
}

/// A Clos whose racks or pods have a fabric ten times as fast, as in Fig. 11.
fn a_hybrid(radix: u32, kind: ScaleUpKind) -> Fabric {
    let link = LinkRates { bandwidth: "500 GB/s".parse().unwrap(), ..LINK() };
    clos::clos(&ClosSpec { scale_up: Some(ScaleUp { kind, link }), ..clos_spec(radix) }).unwrap()
}

/// Seconds of that many bytes on a link of the fast fabric.
fn fast(bytes: BigRational) -> BigRational {
    beta(bytes) / BigInt::from(10)
}

fn gamma(bytes: u64) -> BigRational {
    seconds(i128::from(bytes), 1_000_000_000_000)
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

/// Table 6, mesh in each rack: N = k³/4, R = k/2. The formula charges 6α a round and R additions; rounds within a pod have 4
/// hops, and a rank adds R−1 vectors.
#[test]
fn hybrid_of_meshes_is_table_6() {
    for (radix, n, r, hops) in [(4_u32, 16_u32, 2_u32, 1 + 4 + 6 + 6), (8, 128, 4, 1 + 2 * 4 + 3 * 6)] {
        let fabric = a_hybrid(radix, ScaleUpKind::Mesh);
        let (groups, rounds) = (n / r, (n / r).trailing_zeros());
        let m = 4096 * u64::from(n);
        let cost = price(&fabric, CollectiveKind::AllReduce, n, m, Delay::ZERO, "two-fabrics");
        is(&cost.bandwidth(), &(fast(whole(m)) + beta(whole(m)) * BigInt::from(rounds)), "all_reduce, bandwidth");
        is(&cost.reduce(), &gamma(m * u64::from(r - 1 + rounds)), "all_reduce, reduction");
        is(&cost.latency(), &alpha(hops), "all_reduce, latency");
        let block = 4096;
        let others = whole(block * u64::from(groups - 1));
        let cost = price(&fabric, CollectiveKind::AllGather, n, m, Delay::ZERO, "two-fabrics");
        let first = (alpha(6) + beta(others.clone())).max(alpha(1) + fast(whole(block)));
        is(&cost.total, &(first + alpha(1) + fast(others)), "all_gather");
        let cost = price(&fabric, ALL_TO_ALL, n, m, Delay::ZERO, "direct");
        is(&cost.total, &(alpha(6) + beta(whole(block * u64::from(n - r)))), "all_to_all");
    }
}

/// Table 6, torus in each pod: N = k³/4, P = k²/4.
#[test]
fn hybrid_of_tori_is_table_6() {
    for (radix, n, sides, hops) in [(4_u32, 16_u32, vec![2, 2], 2 + 6 + 6), (8, 128, vec![4, 4], 4 + 3 * 6)] {
        let fabric = a_hybrid(radix, ScaleUpKind::Torus { sides: sides.clone() });
        let p: u32 = sides.iter().product();
        let d: u32 = sides.iter().map(|side| side / 2).sum();
        let adds: u32 = sides.iter().map(|side| side - 1).sum();
        let rounds = (n / p).trailing_zeros();
        let m = 4096 * u64::from(n);
        let cost = price(&fabric, CollectiveKind::AllReduce, n, m, Delay::ZERO, "two-fabrics");
        let bytes = whole(m);
        let bandwidth = fast(bytes.clone()) * BigInt::from(d) + beta(bytes) * BigInt::from(rounds);
        is(&cost.bandwidth(), &bandwidth, "all_reduce, bandwidth");
        is(&cost.reduce(), &gamma(m * u64::from(adds + rounds)), "all_reduce, reduction");
        is(&cost.latency(), &alpha(hops), "all_reduce, latency");
        let cost = price(&fabric, ALL_TO_ALL, n, m, Delay::ZERO, "direct");
        is(&cost.total, &(alpha(6) + beta(whole(4096 * u64::from(n - p)))), "all_to_all");
        // The two phases of all_gather: what the torus must carry in the second one is exact, the first is the larger of
        // the two fabrics' times, spread over D steps.
        let cost = price(&fabric, CollectiveKind::AllGather, n, m, Delay::ZERO, "two-fabrics");
        let steps: Vec<_> = cost.steps.iter().filter(|step| 0 < step.hops).collect();
        assert_eq!(steps.len(), 2 * d as usize);
        let second: BigRational = steps[d as usize..].iter().map(|step| step.bandwidth().seconds().clone()).sum();
        let gathered = seconds(i128::from(4096 * (n / p - 1) * (p - 1)), i128::from(2 * sides.len() as u32));
        assert_eq!(second, fast(gathered));
        let first: BigRational = steps[..d as usize].iter().map(|step| step.bandwidth().seconds().clone()).sum();
        assert_eq!(first, beta(whole(4096 * u64::from(n / p - 1))));
    }
}

/// Appendix E: a tile without a way round takes (a−1) + (c−1) steps; gathering whole vectors each costs m·β.
#[test]
fn tiles_are_appendix_e() {
    for (sides, steps) in [([4, 4], 6), ([2, 8], 8), ([3, 5], 6)] {
        let fabric = grid::grid(&sides, LINK()).unwrap();
        let n = sides[0] * sides[1];
        let m = 4096 * u64::from(n);
        let cost = price(&fabric, CollectiveKind::AllReduce, n, m, Delay::ZERO, "grid-gather-reduce");
        is(&cost.latency(), &alpha(steps), "latency");
        is(&cost.bandwidth(), &(beta(whole(m)) * BigInt::from(steps)), "bandwidth");
        is(&cost.reduce(), &gamma(m * u64::from(steps)), "reduction");
        let cost = price(&fabric, CollectiveKind::AllGather, n, m, Delay::ZERO, "grid");
        is(&cost.latency(), &alpha(steps), "latency of all_gather");
    }
    // 8 × 8: the bisection carries a²b/4-type loads, 128 blocks each way.
    let fabric = grid::grid(&[8, 8], LINK()).unwrap();
    let cost = price(&fabric, ALL_TO_ALL, 64, 4096 * 64, Delay::ZERO, "direct");
    is(&cost.bandwidth(), &beta(whole(4096 * 128)), "all_to_all");
    is(&cost.latency(), &alpha(14), "all_to_all");
}

/// Bundled links cost the same as single ones under loads that are symmetric.
#[test]
fn bundled_trees_price_symmetric_loads_alike() {
    for radix in [4_u32, 8] {
        let n = radix * radix * radix / 4;
        let bundled = clos::clos(&ClosSpec { bundled: true, ..clos_spec(radix) }).unwrap();
        assert!(bundled.topology.links().len() < a_clos(radix).topology.links().len());
        for (kind, name) in [
            (CollectiveKind::AllReduce, "recursive-doubling"),
            (CollectiveKind::AllReduce, "halving-doubling"),
            (CollectiveKind::AllReduce, "bruck"),
            (CollectiveKind::AllGather, "direct"),
            (ALL_TO_ALL, "direct"),
        ] {
            let m = 4096 * u64::from(n);
            let single = price(&a_clos(radix), kind.clone(), n, m, Delay::ZERO, name);
            let together = price(&bundled, kind, n, m, Delay::ZERO, name);
            is(&together.total, single.total.seconds(), name);
        }
    }
}

/// The same fabric, whose switches (or nodes, where there are none) copy and add.
fn able(fabric: Fabric) -> Fabric {
    let mut builder = fabric.topology.to_builder();
    let no_switch = builder.nodes.iter().all(|node| node.kind == NodeKind::Compute);
    for node in builder.nodes.iter_mut().filter(|node| no_switch || node.kind == NodeKind::Switch) {
        (node.multicasts, node.reduces) = (true, true);
    }
    Fabric { topology: Arc::new(builder.finish().unwrap()), ..fabric }
}

fn schedule_of(fabric: &Fabric, kind: CollectiveKind, n: u32, name: &str) -> Schedule {
    let collective = Collective::new(CollectiveSpec {
        kind,
        ranks: n,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(4 * u64::from(n)),
        in_place: true,
        input_writable: false,
    })
    .unwrap();
    let problem = Arc::new(Problem::single(Arc::clone(&fabric.topology), collective, CostModel::FREE).unwrap());
    build::build(name, &BuildContext::new(&problem, fabric)).unwrap()
}

/// Appendix C: link transmissions of an all_gather on a full fat tree, by multicast (the exact tree: the paper counts one
/// too many, D21) and by unicast. The time stays that of the access link.
#[test]
fn multicast_on_a_clos_is_appendix_c() {
    let golden = include_str!("../../tests/golden/a_multicast.json");
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    for row in golden["rows"].as_array().unwrap().iter().filter(|row| row["k_c"].as_u64().unwrap() <= 8) {
        let number = |key: &str| row[key].as_u64().unwrap();
        let (radix, n) = (number("k_c") as u32, number("N") as u32);
        let fabric = able(a_clos(radix));
        let tree = schedule_of(&fabric, CollectiveKind::AllGather, n, "multicast");
        for tree in tree.paths.trees() {
            assert_eq!(tree.hops.len() as u64, number("multicast_per_node_exact"), "radix {radix}");
        }
        assert_eq!(number("multicast_per_node_exact") + 1, number("multicast_per_node_paper"));
        let direct = schedule_of(&fabric, CollectiveKind::AllGather, n, "direct");
        let hops: usize = direct.paths.routes().flat_map(|route| &route.parts).map(|part| part.hops.len()).sum();
        assert_eq!(hops as u64, number("unicast_total"));
        let m = 4096 * u64::from(n);
        let cost = price(&fabric, CollectiveKind::AllGather, n, m, Delay::ZERO, "multicast");
        is(&cost.total, &(alpha(6) + beta(whole(m - 4096))), "time");
    }
}

/// D·α + (n−1)/(2k)·β·m in one step, equal sides.
#[test]
fn multicast_on_a_torus_uses_all_directions() {
    for sides in [&[3][..], &[4], &[2, 2], &[3, 3], &[4, 4], &[2, 2, 2], &[3, 3, 3], &[4, 4, 4]] {
        let (n, d): (u32, u32) = (sides.iter().product(), sides.iter().map(|side| side / 2).sum());
        let block = 4096 * 12;
        let fabric = able(torus::torus(sides, LINK()).unwrap());
        let cost = price(&fabric, CollectiveKind::AllGather, n, block * u64::from(n), Delay::ZERO, "multicast");
        let bytes = whole(block * u64::from(n - 1)) / BigInt::from(2 * sides.len());
        is(&cost.total, &(alpha(d) + beta(bytes)), &format!("{sides:?}"));
    }
}

/// On a switch: reduce and broadcast in m·β, all_reduce in c chunks in (c+1)/c·m·β.
#[test]
fn sums_in_a_switch() {
    let n = 8;
    let fabric = able(switch::switch(n, LINK()).unwrap());
    let m = 4096 * u64::from(n);
    for (kind, name) in
        [(CollectiveKind::Reduce { root: 2 }, "in-network"), (CollectiveKind::Broadcast { root: 2 }, "multicast")]
    {
        let cost = price(&fabric, kind, n, m, Delay::ZERO, name);
        is(&cost.latency(), &alpha(2), name);
        is(&cost.bandwidth(), &beta(whole(m)), name);
    }
    let collective = Collective::new(CollectiveSpec {
        kind: CollectiveKind::AllReduce,
        ranks: n,
        operator: ReduceOperator::Sum,
        dtype: DataType::Float32,
        buffer_size: Bytes(m),
        in_place: true,
        input_writable: false,
    })
    .unwrap();
    let problem = Arc::new(Problem::single(Arc::clone(&fabric.topology), collective, CostModel::FREE).unwrap());
    for chunks in [1_u32, 2, 8] {
        let cx = BuildContext::new(&problem, &fabric).with_chunks(chunks);
        let cost = evaluate(&problem, &build::build("in-network", &cx).unwrap());
        is(&cost.latency(), &alpha(2 * (chunks + 1)), "latency");
        // The first and last step move (n−1)/n of a chunk one way and 1/n the other; between, a chunk each way.
        let chunk = whole(m) / BigInt::from(chunks);
        let end = &chunk * BigInt::from(n - 1) / BigInt::from(n);
        let bytes = chunk * BigInt::from(chunks - 1) + &end + end;
        is(&cost.bandwidth(), &beta(bytes), "bandwidth");
    }
}

/// Prices without building are those of the schedules.
#[test]
fn large_networks_are_priced_as_their_schedules_would_be() {
    use rondo_compiler::cost::scale;
    let startup = Delay::from_nanoseconds(700);
    let cost = CostModel { startup, reduce_cost: PerByte::from_femtoseconds(1000), ..CostModel::FREE };
    let slow = LinkRates { bandwidth: "20 GB/s".parse().unwrap(), latency: Delay::from_nanoseconds(300) };
    let mut networks: Vec<(Fabric, scale::Network)> = Vec::new();
    for spec in [
        ClosSpec { bundled: true, ..clos_spec(4) },
        ClosSpec { bundled: true, ..clos_spec(8) },
        ClosSpec { bundled: true, uplink: slow, ..clos_spec(8) },
        ClosSpec { bundled: true, oversubscription: Ratio::from(3), ..clos_spec(8) },
        ClosSpec { bundled: true, tiers: 2, nodes: Some(24), ..clos_spec(8) },
        ClosSpec { bundled: true, tiers: 2, nodes: Some(16), ..clos_spec(8) },
        ClosSpec { tiers: 1, ..clos_spec(12) },
        ClosSpec { bundled: true, nodes: Some(100), ..clos_spec(8) },
        ClosSpec { bundled: true, nodes: Some(23), ..clos_spec(8) },
        ClosSpec { bundled: true, tiers: 2, nodes: Some(7), ..clos_spec(8) },
    ] {
        networks.push((clos::clos(&spec).unwrap(), scale::Network::clos(&spec).unwrap()));
    }
    for sides in [&[8_u32][..], &[5], &[4, 4], &[3, 5], &[2, 6], &[4, 1, 3], &[2, 3, 4], &[3, 3, 3], &[2, 2, 2, 3]] {
        let network = scale::Network::Torus { sides: sides.iter().map(|&side| side.into()).collect(), link: LINK() };
        networks.push((torus::torus(sides, LINK()).unwrap(), network));
    }
    let mut compared = std::collections::BTreeMap::new();
    for (fabric, network) in networks {
        let n = u32::try_from(network.ranks()).unwrap();
        // Divides into whole elements however it is cut.
        let size = u64::from(n) * 4 * 720_720;
        for (collective, kind) in [
            (scale::Collective::AllReduce, CollectiveKind::AllReduce),
            (scale::Collective::AllGather, CollectiveKind::AllGather),
            (scale::Collective::ReduceScatter, CollectiveKind::ReduceScatter),
            (scale::Collective::AllToAll, ALL_TO_ALL),
        ] {
            for scaled in network.prices(collective, Bytes(size), &cost) {
                let what = format!("{} {collective:?} on {}", scaled.algorithm, fabric.topology.name());
                let built = price(&fabric, kind.clone(), n, size, startup, scaled.algorithm);
                is(&scaled.startup, built.startup().seconds(), &what);
                is(&scaled.latency, built.latency().seconds(), &what);
                is(&scaled.bandwidth, built.bandwidth().seconds(), &what);
                is(&scaled.reduce, built.reduce().seconds(), &what);
                is(&scaled.total(), built.total.seconds(), &what);
                *compared.entry(scaled.algorithm).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(compared.len(), 8, "{compared:?}");
}

/// Random shapes against the verifier's lower bound, which finds its cuts on the graph alone: nothing is below it; all_to_all along
/// shortest ways meets it where the longest side is even, all_gather in rotated parts where all sides are equal.
#[test]
fn tori_of_many_shapes_keep_to_the_bound() {
    let mut shapes: Vec<Vec<u32>> = vec![vec![]];
    let mut all = Vec::new();
    for _ in 0..4 {
        shapes = shapes.iter().flat_map(|shape| (2..=9).map(|side| [&shape[..], &[side]].concat())).collect();
        shapes.retain(|shape| shape.iter().product::<u32>() <= 96);
        all.extend(shapes.iter().cloned());
    }
    // Every eleventh, so that all kinds are among them.
    let (mut met, mut tried) = (0, 0);
    for sides in all.iter().step_by(11) {
        let fabric = torus::torus(sides, LINK()).unwrap();
        let n: u32 = sides.iter().product();
        let size = u64::from(n) * 4 * 720_720;
        for (kind, name) in [(ALL_TO_ALL, "torus-shortest"), (CollectiveKind::AllGather, "torus-rotated")] {
            let longest = *sides.iter().max().unwrap();
            let exact =
                if name == "torus-shortest" { longest % 2 == 0 } else { sides.iter().all(|&side| side == longest) };
            let collective = Collective::new(CollectiveSpec {
                kind,
                ranks: n,
                operator: ReduceOperator::Sum,
                dtype: DataType::Float32,
                buffer_size: Bytes(size),
                in_place: false,
                input_writable: false,
            })
            .unwrap();
            let problem = Arc::new(Problem::single(Arc::clone(&fabric.topology), collective, CostModel::FREE).unwrap());
            let schedule = build::build(name, &BuildContext::new(&problem, &fabric)).unwrap();
            let (cost, bound) =
                (evaluate(&problem, &schedule), rondo_verify::bound::bound_at(&problem, &schedule.chunks).unwrap());
            assert!(bound.synchronous <= cost.total && bound.bandwidth.time <= cost.bandwidth(), "{name} {sides:?}");
            if exact {
                assert_eq!(bound.bandwidth.time, cost.bandwidth(), "{name} {sides:?}");
                met += 1;
            }
            tried += 1;
        }
    }
    assert!(40 < tried && 20 < met, "{met} of {tried}");
}
