//! Shortest runs that lead to an instruction, and what a run computes that takes a race the other way round.

use rondo_ir::collective::Collective;
use rondo_ir::program::OperationKind;

use super::atoms::Atoms;
use super::flat::Flat;
use super::report::Findings;
use super::run;

/// What must happen before the atom, itself included, as marks by atom.
fn needed(atoms: &Atoms, target: u32) -> Vec<bool> {
    let mut needed = vec![false; atoms.list.len()];
    let mut stack = vec![target];
    while let Some(at) = stack.pop() {
        if std::mem::replace(&mut needed[at as usize], true) {
            continue;
        }
        let atom = &atoms.list[at as usize];
        if at != atoms.start[atom.tb as usize] {
            stack.push(at - 1);
        }
        atoms.before(atom, |before| stack.push(before));
    }
    needed
}

/// The shortest run that leads to the atom: for each threadblock, how far it has to go, in the order in which they get
/// there. `None` if nothing comes before.
pub(super) fn shortest(flat: &Flat<'_>, atoms: &Atoms, positions: &[u32], target: u32) -> Option<String> {
    /// Threadblocks that are named.
    const MOST: usize = 6;
    let needed = needed(atoms, target);
    let own = atoms.list[target as usize].tb;
    let mut last: Vec<u32> = Vec::new();
    for tb in 0..super::form::index(flat.tbs.len()) {
        let (first, end) = (atoms.start[tb as usize], atoms.start[tb as usize + 1]);
        let end = if tb == own { target } else { end };
        if let Some(at) = (first..end).rev().find(|&at| needed[at as usize]) {
            last.push(at);
        }
    }
    last.sort_unstable_by_key(|&at| positions[at as usize]);
    if last.is_empty() {
        return None;
    }
    let named: Vec<String> =
        last.iter().rev().take(MOST).rev().map(|&at| flat.location(atoms.list[at as usize].op).to_string()).collect();
    let more = match last.len().saturating_sub(MOST) {
        0 => String::new(),
        1 => "1 threadblock before, then ".to_owned(),
        n => format!("{n} threadblocks before, then "),
    };
    Some(format!("{more}{}", named.join(", ")))
}

/// What goes wrong if `late` runs before `early`, which nothing forbids: a run and what it computes, in words.
///
/// `early` runs first in `order`; `right` says whether that run computes what it should.
pub(super) fn other_way(
    flat: &Flat<'_>,
    atoms: &Atoms,
    (order, right): (&[u32], bool),
    positions: &[u32],
    (early, late): (u32, u32),
    collective: &Collective,
) -> Vec<String> {
    let mut notes = Vec::new();
    if atoms.approximate {
        // What must happen before a wait is not known in full.
        return notes;
    }
    let needed = needed(atoms, late);
    let location = |atom: u32| flat.location(atoms.list[atom as usize].op).to_string();
    if needed[early as usize] {
        return notes;
    }
    let (first, rest): (Vec<u32>, Vec<u32>) = order.iter().partition(|&&atom| needed[atom as usize]);
    let other: Vec<u32> = first.into_iter().chain(rest).collect();
    let mut findings = Findings::new(1);
    let executed = run::run(flat, atoms, &other, collective);
    executed.report(flat, atoms, &other, true, &mut findings);
    let before = shortest(flat, atoms, positions, late).map_or_else(String::new, |run| format!("after {run}, "));
    if let Some(finding) = findings.finish().into_iter().next() {
        notes.push(format!("a run that goes wrong: {before}run {} before {}", location(late), location(early)));
        notes.push(format!("then {}", finding.diagnostic.message));
    } else if !right {
        notes
            .push(format!("a run that goes wrong: run {} first; what then comes out is reported too", location(early)));
    } else if updates(flat, atoms, early) && updates(flat, atoms, late) {
        notes.push(format!(
            "a run that goes wrong: {before}let {} and {} both read the old value, then both write: one addition is lost",
            location(early),
            location(late)
        ));
    } else {
        notes.push("either order gives the same result here; one may see the other half done".to_owned());
    }
    notes
}

/// Whether the atom reads a place and writes the sum back.
fn updates(flat: &Flat<'_>, atoms: &Atoms, atom: u32) -> bool {
    match &flat.ops[atoms.list[atom as usize].op as usize].op.kind {
        OperationKind::Reduce { .. } => true,
        OperationKind::Move { local: Some(local), store: Some(store), receive: Some(_), .. } => local == store,
        OperationKind::Put { op, .. } | OperationKind::Get { op, .. } => *op == rondo_ir::program::MoveOp::Reduce,
        _ => false,
    }
}
