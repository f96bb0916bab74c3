use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, DataType, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::index::RankId;
use rondo_ir::problem::ProblemSpec;
use rondo_ir::topology::LegalConfigurations;
use rondo_ir::units::{Bytes, Delay, PerByte, Rate};
use rondo_verify::{Answer, Options, verify_schedule};
use serde_json::Value;

use super::*;
use crate::auto;
use crate::build::{self, BuildContext};
use crate::cost::shortcut::Pairing;
use crate::topology::circuits::Ties;
use crate::topology::optical::{Design, OpticalSpec, Rings, optical};
use crate::topology::spec::LinkRates;

fn golden(name: &str) -> Value {
    let path = format!("{}/../tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// 800 Gbit/s, as in the paper.
fn spec(rings: Rings, design: Design, hop: u64, delay: u64) -> OpticalSpec {
    OpticalSpec {
        rings,
        design,
        split_ports: false,
        rings_per_switch: 1,
        link: LinkRates { bandwidth: Rate::new(100_000_000_000).unwrap(), latency: Delay::from_nanoseconds(hop) },
        delay: Delay::from_nanoseconds(delay),
        most_ports: None,
    }
}

fn ring(nodes: u32, hop: u64, delay: u64) -> Fabric {
    optical(&spec(Rings::Ring { nodes }, Design::Fixed, hop, delay)).unwrap()
}

fn problem(fabric: &Fabric, kind: CollectiveKind, bytes: u64, startup: u64) -> Arc<Problem> {
    problem_with(
        fabric,
        kind,
        bytes,
        CostModel { startup: Delay::from_nanoseconds(startup), reduce_cost: PerByte::ZERO, ..CostModel::FREE },
    )
}

/// Changes may overlap; local copies cost, so that they too can be overlapped.
fn overlapping() -> CostModel {
    CostModel { overlap_reconfiguration: true, copy_cost: PerByte::from_femtoseconds(40_000), ..CostModel::FREE }
}

fn problem_with(fabric: &Fabric, kind: CollectiveKind, bytes: u64, cost: CostModel) -> Arc<Problem> {
    let placement: Vec<_> = fabric.topology.compute_nodes().collect();
    let n = u32::try_from(placement.len()).unwrap();
    let in_place = kind == CollectiveKind::AllReduce;
    let collective = Collective::new(CollectiveSpec {
        kind,
        ranks: n,
        operator: ReduceOperator::Sum,
        dtype: DataType::Uint8,
        buffer_size: Bytes(bytes),
        in_place,
        input_writable: false,
    })
    .unwrap();
    let ranks = (0..n).map(RankId::from).collect();
    let topology = Arc::clone(&fabric.topology);
    let circuits = fabric.circuits.clone();
    Arc::new(
        Problem::new(ProblemSpec { topology, placement, circuits, groups: vec![(collective, ranks)], cost }).unwrap(),
    )
}

fn build_with(
    problem: &Arc<Problem>,
    fabric: &Fabric,
    algorithm: &str,
    rule: Rule,
    restore: bool,
) -> Result<Schedule, build::BuildError> {
    let circuits = CircuitOptions { rule, restore };
    build::build(algorithm, &BuildContext { circuits, ..BuildContext::new(problem, fabric) })
}

/// The schedule's time, after the verifier has passed it and found the same price.
#[track_caller]
fn time(problem: &Arc<Problem>, schedule: &Schedule) -> Time {
    let options = Options { smt: rondo_verify::SmtMode::Off, ..Options::default() };
    let outcome = verify_schedule(Arc::clone(problem), schedule.clone(), &options);
    assert_eq!(outcome.answer(), Answer::Proved, "{:?}", outcome.findings);
    let total = cost::evaluate(problem, schedule).total;
    assert_eq!(rondo_verify::price(problem, schedule).unwrap().total, total);
    total
}

fn nanoseconds(time: &Time) -> f64 {
    time.to_f64() * 1e9
}

#[track_caller]
fn close(found: f64, expected: &Value) {
    let expected = expected.as_f64().unwrap();
    assert!((found - expected).abs() <= 1e-12 * expected, "{found} instead of {expected}");
}

#[test]
fn hops_and_congestion_on_the_routed_ring_are_the_golden_ones() {
    for row in golden("b_steps")["rows"].as_array().unwrap() {
        let (n, step) = (row["n"].as_u64().unwrap() as u32, row["step"].as_u64().unwrap() as u32);
        let pairing = if row["alg"] == "RD" { Pairing::Doubling } else { Pairing::Swing };
        let fabric = ring(n, 1000, 0);
        let orientation = Arc::clone(fabric.orientation.as_ref().unwrap());
        for (ties, key) in
            [(Ties::SameArc, "h_c_low_half_cw"), (Ties::Clockwise, "h_c_all_cw"), (Ties::Alternate, "h_c_alternate")]
        {
            let router = CircuitRouter::new(Arc::clone(&fabric.topology), &fabric.circuits, Arc::clone(&orientation));
            let router = router.with_ties(ties);
            let (mut hops, mut load) = (0, std::collections::BTreeMap::new());
            for u in 0..n {
                let route = router.route(NodeId::from(u), NodeId::from(pairing.peer(n, u, step))).unwrap();
                hops = hops.max(route.parts[0].hops.len());
                for &hop in &route.parts[0].hops {
                    *load.entry(hop).or_insert(0) += 1;
                }
            }
            assert_eq!(serde_json::json!([hops, load.values().max()]), row[key], "{row} {ties:?}");
        }
    }
}

#[test]
fn matchings_are_those_of_the_golden_designs() {
    let file = golden("b_ocs");
    let pairs = |set: &Configuration| -> Vec<[usize; 2]> {
        let once = |circuit: &&rondo_ir::topology::Circuit| circuit.from < circuit.to;
        set.circuits().iter().filter(once).map(|circuit| [circuit.from.index(), circuit.to.index()]).collect()
    };
    for row in file["ring"].as_array().unwrap() {
        let n = row["n"].as_u64().unwrap() as u32;
        let fabric = ring(n, 1000, 0);
        if !row["M_fix"].is_null() {
            let cables: Vec<_> = fabric.topology.links().iter().filter(|link| link.src < link.dst).collect();
            let cables: Vec<_> = cables.iter().map(|link| [link.src.index(), link.dst.index()]).collect();
            assert_eq!(serde_json::to_value(cables).unwrap(), row["M_fix"]);
            assert_eq!(serde_json::to_value(pairs(&fabric.circuits[0])).unwrap(), row["M_ocs"]);
        }
        let Some(expected) = row["parity_ring_rd_h_c"].as_array() else { continue };
        let fabric = optical(&spec(Rings::Ring { nodes: n }, Design::ParityRing, 1000, 0)).unwrap();
        let order = &fabric.orientation.as_ref().unwrap().position;
        for (place, node) in row["parity_ring_order"].as_array().into_iter().flatten().enumerate() {
            assert_eq!(order[node.as_u64().unwrap() as usize] as usize, place);
        }
        for (step, expected) in (0..).zip(expected) {
            let orientation = Arc::clone(fabric.orientation.as_ref().unwrap());
            let router = CircuitRouter::new(Arc::clone(&fabric.topology), &fabric.circuits, orientation);
            let router = router.with_ties(Ties::SameArc);
            let (mut hops, mut load) = (0, std::collections::BTreeMap::new());
            for u in 0..n {
                let route = router.route(NodeId::from(u), NodeId::from(u ^ 1 << step)).unwrap();
                hops = hops.max(route.parts[0].hops.len());
                route.parts[0].hops.iter().for_each(|&hop| *load.entry(hop).or_insert(0) += 1);
            }
            assert_eq!(serde_json::json!([hops, load.values().max()]), *expected, "n {n} step {step}");
        }
    }
    for row in file["torus"].as_array().unwrap() {
        if row["M_ocs_1"].is_null() {
            continue;
        }
        let sides: Vec<u32> = serde_json::from_value(row["dims"].clone()).unwrap();
        let fabric = optical(&spec(Rings::Torus { sides: sides.clone() }, Design::Fixed, 1000, 0)).unwrap();
        let mut all = Vec::new();
        for (device, set) in fabric.topology.devices().iter().zip(&fabric.circuits) {
            all.extend(pairs(set).into_iter().map(|pair| {
                let mut nodes = pair.map(|port| device.ports[port].node.index());
                nodes.sort_unstable();
                nodes
            }));
        }
        let expected = (1..=sides.len()).flat_map(|k| row[format!("M_ocs_{k}")].as_array().unwrap().clone());
        let mut expected: Vec<[usize; 2]> = expected.map(|pair| serde_json::from_value(pair).unwrap()).collect();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected);
        assert_eq!(fabric.topology.links().len() as u64, 2 * row["fixed_links"].as_u64().unwrap());
    }
}

/// Rows of the golden grids for rings that are quick to build; sizes that divide into blocks of whole bytes.
fn rows(file: &str, most: u64, every: usize) -> Vec<Value> {
    let rows = golden(file)["rows"].as_array().unwrap().clone();
    let fits = |row: &Value| row[0].as_u64().unwrap() <= most && row[4].as_u64().unwrap().is_multiple_of(128);
    rows.into_iter().filter(fits).step_by(every).collect()
}

fn case(row: &Value) -> (u32, u64, u64, u64, u64) {
    let at = |index: usize| row[index].as_u64().unwrap();
    (at(0) as u32, at(1), at(2), at(3), at(4))
}

#[test]
fn thresholds_of_real_schedules_cost_what_the_golden_grids_say() {
    for (file, algorithm, first) in [("b_cost_grid_rd", "halving-doubling", 1), ("b_cost_grid_swing", "swing", 2)] {
        for row in rows(file, 32, 97) {
            let (n, hop, startup, delay, bytes) = case(&row);
            let fabric = ring(n, hop, delay);
            let problem = problem(&fabric, CollectiveKind::ReduceScatter, bytes, startup);
            // Static up to the end, antipodal pairs use both arcs, which the golden rows do not; Swing's step 1 finds its
            // circuits set, which the golden rows charge.
            for threshold in first..n.ilog2() {
                let schedule = build_with(&problem, &fabric, algorithm, Rule::Threshold(threshold), false).unwrap();
                close(nanoseconds(&time(&problem, &schedule)), &row[6][threshold as usize]);
            }
            let too_far = Rule::Threshold(n.ilog2() + 1);
            assert!(build_with(&problem, &fabric, algorithm, too_far, false).is_err());
        }
    }
}

#[test]
fn all_reduces_are_charged_by_the_state_of_the_switch() {
    for row in rows("b_allreduce", 32, 11) {
        let (n, hop, startup, delay, bytes) = case(&row);
        let fabric = ring(n, hop, delay);
        let problem = problem(&fabric, CollectiveKind::AllReduce, bytes, startup);
        for threshold in 1..n.ilog2() {
            let schedule =
                build_with(&problem, &fabric, "halving-doubling", Rule::Threshold(threshold), false).unwrap();
            close(nanoseconds(&time(&problem, &schedule)), &row[7][threshold as usize]);
            let changes = schedule.steps.iter().filter(|step| !step.reconfigure.is_empty()).count();
            assert_eq!(changes as u64, row[8][threshold as usize].as_u64().unwrap());
        }
        let at = |restore| {
            let schedule = build_with(&problem, &fabric, "halving-doubling", Rule::Optimal, restore).unwrap();
            assert!(!restore || schedule.leaves_circuits == problem.circuits());
            nanoseconds(&time(&problem, &schedule))
        };
        // No dearer than the best pair of thresholds.
        for (restore, best) in [(false, 10), (true, 11)] {
            assert!(at(restore) <= row[best][2].as_f64().unwrap() * (1.0 + 1e-12), "{row}");
        }
    }
}

#[test]
fn wider_classes_are_never_dearer() {
    for (file, algorithm) in [("b_cost_grid_rd", "halving-doubling"), ("b_cost_grid_swing", "swing")] {
        for row in rows(file, 16, 23) {
            let (n, hop, startup, delay, bytes) = case(&row);
            let fabric = ring(n, hop, delay);
            for kind in [CollectiveKind::ReduceScatter, CollectiveKind::AllGather, CollectiveKind::AllReduce] {
                let problem = problem(&fabric, kind, bytes, startup);
                let at = |rule| build_with(&problem, &fabric, algorithm, rule, false).map(|s| time(&problem, &s));
                let (optimal, per_step) = (at(Rule::Optimal).unwrap(), at(Rule::PerStep).unwrap());
                let (best, off) = (at(Rule::Best).unwrap(), at(Rule::Off).unwrap());
                assert!(optimal <= per_step && per_step <= best && best <= off, "{row}");
                if let Ok(paper) = at(Rule::Paper) {
                    assert!(best <= paper, "{row}");
                }
            }
        }
    }
}

/// Every sequence of configurations of the class, each built and priced by the verifier.
#[test]
fn no_sequence_of_the_class_beats_the_optimal_one() {
    no_sequence_beats(CostModel::FREE);
}

#[test]
fn no_sequence_of_the_class_beats_the_optimal_one_where_changes_overlap() {
    no_sequence_beats(overlapping());
}

fn no_sequence_beats(cost: CostModel) {
    for (kind, n, design, algorithm) in [
        (CollectiveKind::AllReduce, 4, Design::Fixed, "halving-doubling"),
        (CollectiveKind::ReduceScatter, 8, Design::Fixed, "halving-doubling"),
        (CollectiveKind::ReduceScatter, 8, Design::Fixed, "swing"),
        (CollectiveKind::AllGather, 8, Design::AllPorts, "halving-doubling"),
        (CollectiveKind::Broadcast { root: 3 }, 8, Design::Fixed, "binomial-tree"),
        (CollectiveKind::AllToAll { matrix: None }, 4, Design::AllPorts, "bruck"),
    ] {
        for (delay, bytes) in [(0, 1 << 20), (300, 1 << 10), (1_000, 1 << 16), (3_000, 1 << 17), (90_000, 1 << 10)] {
            let fabric = optical(&spec(Rings::Ring { nodes: n }, design, 1000, delay)).unwrap();
            let problem = problem_with(&fabric, kind.clone(), bytes, cost);
            let reaching = reaching(&fabric);
            let circuits = CircuitOptions { rule: Rule::Off, restore: false };
            let base =
                build::build(algorithm, &BuildContext { circuits, ..BuildContext::new(&problem, &reaching) }).unwrap();
            let demands = Demands::of(&problem, &base);
            let class = configurations(&problem, &fabric, &demands, true);
            for restore in [false, true] {
                let found = build_with(&problem, &fabric, algorithm, Rule::Optimal, restore).unwrap();
                let found = time(&problem, &found);
                let (count, steps) = (class.configurations.len(), demands.steps.len());
                assert!(2 <= count);
                let (mut least, mut tried) = (None, 0);
                for number in 0..count.pow(u32::try_from(steps).unwrap()) {
                    let mut rest = number;
                    let sequence: Vec<usize> = (0..steps)
                        .map(|_| {
                            let digit = rest % count;
                            rest /= count;
                            digit
                        })
                        .collect();
                    let plan = Plan { time: Time::zero(), changes: 0, configurations: sequence };
                    let possible = demands.pairs.iter().zip(&plan.configurations).all(|(pairs, &at)| {
                        let router = router(&fabric, &class.configurations[at]);
                        pairs.iter().all(|&(src, dst)| router.hops(src, dst).is_some())
                    });
                    if !possible {
                        continue;
                    }
                    let schedule = finish(&problem, &fabric, base.clone(), &demands, &class, &plan, restore);
                    let total = rondo_verify::price(&problem, &schedule).unwrap().total;
                    tried += 1;
                    if least.as_ref().is_none_or(|least| total < *least) {
                        least = Some(total);
                    }
                }
                assert!(1 < tried);
                assert_eq!(Some(found), least, "{algorithm} {n} {design:?} {delay}");
            }
        }
    }
}

/// Two switched ports an endpoint: while a step runs on one, the other is set for the next. What a change takes beyond the step
/// is all that is paid.
#[test]
fn changes_of_idle_ports_hide_behind_steps() {
    let (n, hop, bytes) = (16, 100, 1 << 20);
    // Steps of a reduce_scatter take 100 ns and 1 MiB / 2^(i+1) at 100 GB/s: 5243, 2621, 1311, 655 ns and 100 each.
    for (delay, paid) in [(0, 0), (700, 0), (1_400, 0), (1_500, 1_500 - 1_410_u32)] {
        let spec = spec(Rings::Ring { nodes: n }, Design::AllPorts, hop, delay);
        let fabric = optical(&spec).unwrap();
        let cost = CostModel { overlap_reconfiguration: true, ..CostModel::FREE };
        let apart = problem(&fabric, CollectiveKind::ReduceScatter, bytes, 0);
        let beside = problem_with(&fabric, CollectiveKind::ReduceScatter, bytes, cost);
        let at =
            |problem| time(problem, &build_with(problem, &fabric, "halving-doubling", Rule::Optimal, false).unwrap());
        let steps: u64 = (1..=4).map(|i| hop * 1_000_000 + (bytes >> i) * 10_000).sum();
        let found = at(&beside);
        assert!(found <= at(&apart));
        // Copies to the output are free here, so the ring serves step 0 and everything later is prepared.
        let least = Time::from_femtoseconds(u128::from(steps) + u128::from(paid) * 1_000_000);
        assert!(found <= least.clone() + Time::from_femtoseconds(1_000_000), "{delay}: {found} {least}");
        assert!(Time::from_femtoseconds(u128::from(steps)) <= found);
    }
}

#[test]
fn overlap_is_never_dearer_and_wider_classes_stay_cheaper() {
    for row in rows("b_cost_grid_rd", 16, 41) {
        let (n, hop, startup, delay, bytes) = case(&row);
        for design in [Design::Fixed, Design::AllPorts] {
            let fabric = optical(&spec(Rings::Ring { nodes: n }, design, hop, delay)).unwrap();
            let free = CostModel { startup: Delay::from_nanoseconds(startup), ..CostModel::FREE };
            let costs = [free, CostModel { overlap_reconfiguration: true, ..free }];
            let rules = [Rule::Optimal, Rule::PerStep, Rule::Best, Rule::Off];
            let all = costs.map(|cost| {
                let problem = problem_with(&fabric, CollectiveKind::AllReduce, bytes, cost);
                rules
                    .map(|rule| time(&problem, &build_with(&problem, &fabric, "halving-doubling", rule, true).unwrap()))
            });
            assert!(all[1].is_sorted(), "{row}");
            assert!(all[0].iter().zip(&all[1]).all(|(apart, beside)| beside <= apart), "{row}");
        }
    }
}

#[test]
fn every_algorithm_that_is_built_on_circuits_is_right() {
    for (rings, design, split) in [
        (Rings::Ring { nodes: 8 }, Design::AllPorts, false),
        (Rings::Ring { nodes: 8 }, Design::Fixed, true),
        (Rings::Ring { nodes: 6 }, Design::Fixed, false),
        (Rings::Ring { nodes: 8 }, Design::ParitySplit, false),
        (Rings::Ring { nodes: 8 }, Design::ParityRing, false),
        (Rings::Ring { nodes: 8 }, Design::SinglePort, false),
        (Rings::Ring { nodes: 8 }, Design::SinglePort, true),
        (Rings::Torus { sides: vec![4, 4] }, Design::Fixed, false),
        (Rings::Torus { sides: vec![2, 4] }, Design::AllPorts, false),
    ] {
        let fabric = optical(&OpticalSpec { split_ports: split, ..spec(rings.clone(), design, 1000, 500) }).unwrap();
        for kind in [
            CollectiveKind::AllReduce,
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
            CollectiveKind::AllToAll { matrix: None },
            CollectiveKind::Broadcast { root: 1 },
            CollectiveKind::Reduce { root: 2 },
        ] {
            let apart = problem(&fabric, kind.clone(), 1 << 16, 100);
            let beside = problem_with(&fabric, kind.clone(), 1 << 16, overlapping());
            let mut built = 0;
            for info in build::algorithms().iter().filter(|info| info.serves(&kind)) {
                for (problem, rule) in [(&apart, Rule::Optimal), (&apart, Rule::PerStep), (&beside, Rule::Optimal)] {
                    if let Ok(schedule) = build_with(problem, &fabric, info.name, rule, true) {
                        time(problem, &schedule);
                        assert_eq!(schedule.leaves_circuits, problem.circuits());
                        built += 1;
                    }
                }
            }
            // Where circuits are dark or single, an all_to_all of six or eight finds no matchings.
            let few = !split && matches!(design, Design::ParitySplit | Design::SinglePort);
            let hopeless = few && matches!(kind, CollectiveKind::AllToAll { .. });
            assert!(hopeless || 0 < built, "{kind:?} on {rings:?} {design:?}");
        }
    }
}

#[test]
fn parity_split_cannot_hold_the_ring_and_swing_says_so() {
    let fabric = optical(&spec(Rings::Ring { nodes: 8 }, Design::ParitySplit, 1000, 500)).unwrap();
    let problem = problem(&fabric, CollectiveKind::ReduceScatter, 1 << 16, 0);
    let built = |name, rule| build_with(&problem, &fabric, name, rule, false);
    // Recursive halving with T = 1 is all that it supports; T = 2 would need the ring.
    time(&problem, &built("halving-doubling", Rule::Threshold(1)).unwrap());
    assert!(built("halving-doubling", Rule::Threshold(2)).is_err());
    let error = built("swing", Rule::Optimal).unwrap_err().to_string();
    assert!(error.contains("design = \"parity-ring\""), "{error}");
}

#[test]
fn a_rotor_turns_position_by_position_and_a_wavelength_map_is_honoured() {
    let whole = ring(8, 1000, 500);
    let positions: Vec<Configuration> = (0..3)
        .map(|step| {
            let pairs = (0..8_u32).filter(|u| u & 1 << step == 0).map(|u| (u, u ^ 1 << step));
            let both = pairs.flat_map(|(a, b)| [(a, b), (b, a)]);
            let circuit = |(from, to): (u32, u32)| rondo_ir::topology::Circuit { from: from.into(), to: to.into() };
            Configuration::new(both.map(circuit).collect())
        })
        .collect();
    let with = |legal: LegalConfigurations, initial: Configuration| {
        let mut builder = whole.topology.to_builder();
        builder.devices[0].legal = legal;
        let topology = Arc::new(builder.finish().unwrap());
        let circuits = vec![initial];
        let orientation = Arc::clone(whole.orientation.as_ref().unwrap());
        let router = Arc::new(CircuitRouter::new(Arc::clone(&topology), &circuits, orientation));
        Fabric { topology, circuits, router, ..whole.clone() }
    };
    let rotor = with(LegalConfigurations::Cycle { configurations: positions.clone() }, positions[0].clone());
    let on_rotor = problem(&rotor, CollectiveKind::AllReduce, 1 << 20, 0);
    let schedule = build_with(&on_rotor, &rotor, "halving-doubling", Rule::Optimal, true).unwrap();
    time(&on_rotor, &schedule);
    // Step 0 needs no circuit; 1 → 2 is a move, back from 2 to 1 are two, and from there to 0 two more.
    let changes = schedule.steps.iter().filter(|step| !step.reconfigure.is_empty()).count();
    assert_eq!(changes, 6);
    // A map without the circuits of the last step: that step cannot have circuits of its own.
    let [first, second] = [0, 1].map(|at: usize| positions[at + usize::from(at == 0)].circuits().to_vec());
    let mut circuits = [first, whole.circuits[0].circuits().to_vec(), second].concat();
    circuits.sort_unstable();
    circuits.dedup();
    let last = &positions[2];
    circuits.retain(|circuit| !last.contains(*circuit));
    let map = with(LegalConfigurations::Only { circuits }, whole.circuits[0].clone());
    let on_map = problem(&map, CollectiveKind::ReduceScatter, 1 << 20, 0);
    let schedule = build_with(&on_map, &map, "halving-doubling", Rule::Optimal, false).unwrap();
    time(&on_map, &schedule);
    assert!(build_with(&on_map, &map, "halving-doubling", Rule::Threshold(1), false).is_err());
}

#[test]
fn antisymmetric_steps_need_ports_that_send_or_receive_only() {
    let spec = spec(Rings::Ring { nodes: 8 }, Design::SinglePort, 1000, 100);
    let time_of = |split_ports| {
        let fabric = optical(&OpticalSpec { split_ports, ..spec.clone() }).unwrap();
        let problem = problem(&fabric, CollectiveKind::AllToAll { matrix: None }, 1 << 16, 0);
        let selection = auto::select(&BuildContext::new(&problem, &fabric), auto::Algorithm::Named("bruck"), None);
        selection.map(|selection| time(&problem, &selection.schedule)).ok()
    };
    // Rank p sends to p + 2^t and receives from p − 2^t: with duplex ports that is no matching.
    assert_eq!(time_of(false), None);
    // Three steps over one circuit each, all changed: 3·(1 µs + 100 ns) and three times half of 64 KiB at 100 GB/s.
    let bandwidth = Time::from_femtoseconds(3 * (1 << 15) * 10_000);
    assert_eq!(time_of(true), Some(Time::from_femtoseconds(3 * 1_100_000_000) + bandwidth));
}
