//! Whether a program is a schedule.
//!
//! Every value gets a number: that of an input slot, or of a sum of two values in this order. Equal numbers mean the same
//! expression. The schedule's flows and the program's messages, puts and gets are then transfers (source rank, destination
//! rank, value), one a slot. Program and schedule are the same if they make the same transfers, each as often, and end
//! with the same value in every output slot that the collective cares for. Where a value waits on the way (scratch,
//! channels, threadblocks) does not matter; a sum in another order does, since floats tell the difference.

use rondo_ir::collective::{Buffer, Place};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::{FlowId, GroupId, RankId, StepId};
use rondo_ir::problem::Problem;
use rondo_ir::program::Program;
use rondo_ir::schedule::{Flow, FlowOp, PathKind, Schedule};
use rondo_ir::text;
use rustc_hash::FxHashMap;

use super::atoms::Atoms;
use super::flat::{Flat, NONE, Places};
use super::form::{self, index};
use super::report::Findings;
use super::{ProgramOptions, order, run};
use crate::{About, Verified};

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferReport {
    /// Transfers of one slot from rank to rank; the same in both.
    pub transfers: usize,
    /// Different values that occur.
    pub values: usize,
    /// Output slots that end with the same value.
    pub outputs: usize,
}

/// Shows that a program makes the transfers of a schedule, and computes the same sums in the same order.
///
/// # Errors
/// V132 if they cannot be compared; V130 naming the first flow that the program does not make and the first
/// instruction that makes another transfer; V131 for output slots that end with another value.
pub fn same_transfers(
    schedule: &Verified<Schedule>,
    program: &Verified<Program>,
) -> Result<TransferReport, Vec<Diagnostic>> {
    let fault = |message: String| vec![Diagnostic::error("V132", message)];
    let (About::Problem(problem), About::Claim(claim)) = (schedule.about(), program.about()) else {
        return Err(fault("a schedule of a problem and a program of a collective are needed".to_owned()));
    };
    let (schedule, program) = (schedule.value(), program.value());
    let [group] = problem.groups() else {
        let groups = problem.groups().len();
        return Err(fault(format!("the schedule has {groups} groups; a program is compared with one")));
    };
    let (ours, theirs) = (group.collective(), &claim.collective);
    if ours.kind() != theirs.kind() || ours.ranks() != theirs.ranks() || ours.operator() != theirs.operator() {
        return Err(fault(format!("the schedule is for {ours}, the program for {theirs}")));
    }
    let chunks = schedule.chunks.first().copied().unwrap_or(0);
    if chunks != claim.chunks {
        return Err(fault(format!(
            "the schedule cuts a block into {chunks} chunks, the program into {}",
            claim.chunks
        )));
    }
    // The program was verified, so its form is known to be right; this only unrolls it again.
    let options = ProgramOptions { work_limit: u64::MAX, ..ProgramOptions::default() };
    let mut findings = Findings::new(1);
    let Ok(flat) = form::check(claim, program, &options, &mut findings) else {
        return Err(findings.finish().into_iter().map(|finding| finding.diagnostic).collect());
    };
    let atoms = Atoms::new(&flat, true);
    let Some(order) = order::total_order(&flat, &atoms) else {
        return Err(fault("the program does not finish".to_owned()));
    };
    let mut values = Values::new(&flat.places);
    let (of_schedule, at_schedule) = of_schedule(problem, schedule, &mut values).map_err(fault)?;
    let (of_program, at_program) = of_program(&flat, &atoms, &order, &mut values);
    drop(order);
    let mut faults = Vec::new();
    let transfers = of_schedule.len();
    let (missing, extra) = differences(of_schedule, of_program);
    if let Some(missing) = missing {
        faults.push(missing_flow(problem, schedule, &values, missing));
    }
    if let Some(extra) = extra {
        let location = flat.location(atoms.list[extra.origin as usize].op);
        faults.push(
            Diagnostic::error(
                "V130",
                format!("{location} moves {} from r{} to r{}", values.describe(extra.value), extra.src, extra.dst),
            )
            .note("the schedule has no such transfer, or not as often"),
        );
    }
    let outputs = outputs(&values, &flat, &at_schedule, &at_program, &mut faults);
    if faults.is_empty() { Ok(TransferReport { transfers, values: values.count(), outputs }) } else { Err(faults) }
}

/// A slot that goes from rank to rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Transfer {
    src: u32,
    dst: u32,
    value: u32,
    /// Number of the flow, or the atom.
    origin: u32,
    /// When it happens.
    when: u32,
}

/// Interned expressions. 0 is undefined, then come the input slots, then sums.
struct Values {
    /// First input value of each rank, and the end.
    inputs: Vec<u32>,
    sums: Vec<(u32, u32)>,
    known: FxHashMap<(u32, u32), u32>,
}

impl Values {
    fn new(places: &Places<'_>) -> Self {
        let mut inputs = vec![1_u32];
        let mut total = 1_u32;
        for rank in 0..places.layout.collective().ranks() {
            total += places.layout.slots(rank, Buffer::Input);
            inputs.push(total);
        }
        Self { inputs, sums: Vec::new(), known: FxHashMap::default() }
    }

    fn count(&self) -> usize {
        self.first_sum() as usize - 1 + self.sums.len()
    }

    fn first_sum(&self) -> u32 {
        self.inputs.last().copied().unwrap_or(1)
    }

    fn input(&self, rank: u32, slot: u32) -> u32 {
        self.inputs[rank as usize] + slot
    }

    fn add(&mut self, a: u32, b: u32) -> u32 {
        if a == 0 || b == 0 {
            return 0;
        }
        let fresh = self.first_sum() + index(self.sums.len());
        let value = *self.known.entry((a, b)).or_insert(fresh);
        if value == fresh {
            self.sums.push((a, b));
        }
        value
    }

    /// `(r0.i[1] + r1.i[1])`, cut where it gets long.
    fn describe(&self, value: u32) -> String {
        let mut line = String::new();
        let mut left = 12_u32;
        // What is still to be written: a value, or a piece of text.
        let mut stack: Vec<Result<u32, &str>> = vec![Ok(value)];
        while let Some(item) = stack.pop() {
            match item {
                Err(piece) => line.push_str(piece),
                Ok(0) => line.push_str("nothing"),
                Ok(value) if value < self.first_sum() => {
                    let rank = self.inputs.partition_point(|&first| first <= value) - 1;
                    let place = Place::input(value - self.inputs[rank]);
                    line.push_str(&format!("{}.{place}", RankId::new(rank)));
                }
                Ok(value) if left != 0 => {
                    left -= 1;
                    let (a, b) = self.sums[(value - self.first_sum()) as usize];
                    stack.extend([Err(")"), Ok(b), Err(" + "), Ok(a), Err("(")]);
                }
                Ok(_) => line.push('…'),
            }
        }
        line
    }

    /// The values of all places before anything happens.
    fn initial(&self, places: &Places<'_>) -> Vec<u32> {
        let mut at = vec![0; places.len()];
        places.layout.precondition(|rank, place, contribution| {
            at[places.locate(rank, place) as usize] = self.input(contribution.origin, contribution.slot);
        });
        at
    }
}

/// Transfers of a schedule and the values of its output slots, by rank and slot.
type Traced = (Vec<Transfer>, Vec<Vec<u32>>);

/// What waits for the end of a step: sorted as additions are done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Write {
    dst: u32,
    src: u32,
    src_place: Place,
    value: u32,
    adds: bool,
}

fn of_schedule(problem: &Problem, schedule: &Schedule, values: &mut Values) -> Result<Traced, String> {
    let group = GroupId::new(0);
    let chunks = schedule.chunks.first().copied().unwrap_or(0);
    let layout = problem.layout(group, chunks).map_err(|error| error.to_string())?;
    let n = layout.collective().ranks();
    let scratch = (0..n).map(|position| schedule.scratch_slots(group, position));
    let places = Places::new(layout, scratch, u64::MAX).map_err(|given| format!("the schedule has {given} slots"))?;
    let mut at = values.initial(&places);
    let mut transfers = Vec::new();
    let mut writes: Vec<Write> = Vec::new();
    let apply = |writes: &mut Vec<Write>, at: &mut Vec<u32>, values: &mut Values| {
        writes.sort_unstable();
        for write in writes.drain(..) {
            let place = &mut at[write.dst as usize];
            *place = if write.adds { values.add(*place, write.value) } else { write.value };
        }
    };
    let position = |rank: RankId| {
        let known = (rank.index() < problem.rank_count()).then(|| problem.position(group, rank)).flatten();
        known.ok_or_else(|| format!("{rank} takes no part in the group"))
    };
    let locate = |rank: u32, place: Place, count: u32| {
        let exists = places.contains(rank, place, count);
        exists.then(|| places.locate(rank, place)).ok_or_else(|| format!("r{rank}.{place} does not exist"))
    };
    let mut id = 0_u32;
    for step in (0..schedule.steps.len()).map(StepId::new) {
        for flow in schedule.flows(step) {
            if matches!(flow.path.kind(), PathKind::Local | PathKind::Route(_)) {
                // One source and one target: nearly all flows.
                let (src, dst) = (position(flow.src)?, position(flow.dst)?);
                let source = locate(src, flow.src_place, flow.count)?;
                let target = locate(dst, flow.dst_place, flow.count)?;
                let adds = flow.op == FlowOp::Reduce;
                for slot in 0..flow.count {
                    let value = at[(source + slot) as usize];
                    if !flow.path.is_local() {
                        transfers.push(Transfer { src, dst, value, origin: id, when: id });
                    }
                    let src_place = flow.src_place.offset(slot);
                    writes.push(Write { dst: target + slot, src, src_place, value, adds });
                }
                if schedule.dependencies.is_some() {
                    apply(&mut writes, &mut at, values);
                }
                id = id.saturating_add(1);
                continue;
            }
            let (sources, targets) = ends(schedule, &flow)?;
            let src = position(flow.src)?;
            let sources = sources
                .into_iter()
                .map(|rank| {
                    let position = position(rank)?;
                    Ok((position, locate(position, flow.src_place, flow.count)?))
                })
                .collect::<Result<Vec<_>, String>>()?;
            let targets = targets
                .into_iter()
                .map(|rank| {
                    let position = position(rank)?;
                    Ok((position, locate(position, flow.dst_place, flow.count)?))
                })
                .collect::<Result<Vec<_>, String>>()?;
            for slot in 0..flow.count {
                let mut value = None;
                for &(_, place) in &sources {
                    let part = at[(place + slot) as usize];
                    value = Some(value.map_or(part, |sum| values.add(sum, part)));
                }
                let value = value.unwrap_or(0);
                for &(dst, place) in &targets {
                    for &(src, source) in &sources {
                        if !flow.path.is_local() {
                            let value = if sources.len() == 1 { value } else { at[(source + slot) as usize] };
                            transfers.push(Transfer { src, dst, value, origin: id, when: id });
                        }
                    }
                    let adds = flow.op == FlowOp::Reduce;
                    let src_place = flow.src_place.offset(slot);
                    writes.push(Write { dst: place + slot, src, src_place, value, adds });
                }
            }
            if schedule.dependencies.is_some() {
                // Without steps flows take effect one after the other.
                apply(&mut writes, &mut at, values);
            }
            id = id.saturating_add(1);
        }
        apply(&mut writes, &mut at, values);
    }
    Ok((transfers, output_values(&places, &at)))
}

/// Source and destination ranks of a flow.
fn ends(schedule: &Schedule, flow: &Flow) -> Result<(Vec<RankId>, Vec<RankId>), String> {
    let leaves = |tree| {
        let tree = schedule.paths.get_tree(tree).ok_or_else(|| format!("{tree} does not exist"))?;
        Ok::<_, String>(tree.leaves.clone())
    };
    Ok(match flow.path.kind() {
        PathKind::Local | PathKind::Route(_) => (vec![flow.src], vec![flow.dst]),
        PathKind::Multicast(tree) => (vec![flow.src], leaves(tree)?),
        PathKind::Aggregate(tree) => (leaves(tree)?, vec![flow.dst]),
    })
}

fn of_program(flat: &Flat<'_>, atoms: &Atoms, order: &[u32], values: &mut Values) -> Traced {
    // Temporaries are added as they come.
    let cells = run::Cells::new(flat, atoms);
    let mut at = values.initial(&flat.places);
    at.resize(cells.len(), 0);
    let mut transfers = Vec::new();
    let mut moves = 0_u32;
    run::each_move(flat, atoms, order, |step| {
        let when = moves;
        moves = moves.saturating_add(1);
        if at.len() <= step.dst as usize {
            at.resize(step.dst as usize + 1, 0);
        }
        let a = at[step.a as usize];
        let moved = if step.b == NONE { a } else { at[step.b as usize] };
        at[step.dst as usize] = if step.b == NONE { a } else { values.add(a, moved) };
        let atom = &atoms.list[step.atom as usize];
        let me = flat.tbs[atom.tb as usize].rank;
        let (src, dst) = if cells.is_message(step.dst) {
            let conn = &flat.conns[atom.send as usize];
            (conn.src, conn.dst)
        } else if atom.send == NONE && atom.receive == NONE {
            // The operand that is moved and the destination are places or temporaries; a temporary is at the own rank.
            let operand = if step.b == NONE { step.a } else { step.b };
            let rank = |cell: u32| if cell < cells.places { flat.places.place(cell).0 } else { me };
            if flat.places.same_rank(me, operand, step.dst) {
                return;
            }
            (rank(operand), rank(step.dst))
        } else {
            return;
        };
        if src != dst {
            transfers.push(Transfer { src, dst, value: moved, origin: step.atom, when });
        }
    });
    (transfers, output_values(&flat.places, &at))
}

fn output_values(places: &Places<'_>, at: &[u32]) -> Vec<Vec<u32>> {
    let slots = |rank| 0..places.layout.slots(rank, Buffer::Output);
    let value = |rank, slot| at[places.locate(rank, Place::output(slot)) as usize];
    (0..places.layout.collective().ranks()).map(|rank| slots(rank).map(|slot| value(rank, slot)).collect()).collect()
}

/// The first transfer that only the schedule makes, and the first that only the program makes.
fn differences(mut ours: Vec<Transfer>, mut theirs: Vec<Transfer>) -> (Option<Transfer>, Option<Transfer>) {
    ours.sort_unstable();
    theirs.sort_unstable();
    let key = |transfer: &Transfer| (transfer.src, transfer.dst, transfer.value);
    let (mut missing, mut extra) = (None::<Transfer>, None::<Transfer>);
    let earlier = |best: &mut Option<Transfer>, found: Transfer| {
        if best.is_none_or(|best| found.when < best.when) {
            *best = Some(found);
        }
    };
    let (mut i, mut j) = (0, 0);
    loop {
        let side = match (ours.get(i), theirs.get(j)) {
            (Some(a), Some(b)) => key(a).cmp(&key(b)),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => break,
        };
        if side != std::cmp::Ordering::Greater {
            if side == std::cmp::Ordering::Less {
                earlier(&mut missing, ours[i]);
            } else {
                j += 1;
            }
            i += 1;
        } else {
            earlier(&mut extra, theirs[j]);
            j += 1;
        }
    }
    (missing, extra)
}

fn missing_flow(problem: &Problem, schedule: &Schedule, values: &Values, missing: Transfer) -> Diagnostic {
    let what = values.describe(missing.value);
    let mut diagnostic = Diagnostic::error(
        "V130",
        format!("the program does not move {what} from r{} to r{} as often as the schedule", missing.src, missing.dst),
    );
    if let Some((step, flow)) = schedule.all_flows().nth(missing.origin as usize) {
        let line = text::flow_line(problem, schedule, step, FlowId::from(missing.origin), &flow);
        diagnostic.notes.push(format!("the schedule does so in {line}"));
    }
    diagnostic
}

/// Compares what the output slots end with; gives their number.
fn outputs(
    values: &Values,
    flat: &Flat<'_>,
    ours: &[Vec<u32>],
    theirs: &[Vec<u32>],
    faults: &mut Vec<Diagnostic>,
) -> usize {
    let layout = flat.places.layout;
    let mut compared = 0;
    let mut different = 0_usize;
    for ((rank, ours), theirs) in (0_u32..).zip(ours).zip(theirs) {
        for ((slot, &our), &their) in (0_u32..).zip(ours).zip(theirs) {
            if layout.postcondition(rank, slot).is_none() {
                continue;
            }
            compared += 1;
            if our != their {
                different += 1;
                if different == 1 {
                    faults.push(
                        Diagnostic::error("V131", format!("r{rank}.{} ends with another value", Place::output(slot)))
                            .note(format!("in the schedule: {}", values.describe(our)))
                            .note(format!("in the program: {}", values.describe(their))),
                    );
                }
            }
        }
    }
    if let Some(last) = faults.last_mut().filter(|_| 1 < different) {
        last.notes.push(format!("so do {} more output slots", different - 1));
    }
    compared
}
