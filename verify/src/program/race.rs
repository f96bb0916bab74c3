//! Data races: two accesses to one place, one of them a write, that happens-before does not order.
//!
//! Per place it is enough to look at neighbours in a total order: a write against the write before it and the reads since
//! then, a read against the write before it; order is transitive. Most neighbours share a threadblock. Those of different
//! threadblocks of one rank are looked up in clocks over the threadblocks of that rank, fed by edges within the rank. What is still
//! open is searched in the whole graph, and what that search leaves open after a while is decided by clocks over the whole
//! graph, a few threadblocks at a time.

use rayon::prelude::*;
use rondo_ir::collective::{Collective, Place};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::RankId;
use rondo_ir::program::OperationKind;
use rustc_hash::FxHashMap;

use super::atoms::Atoms;
use super::flat::{Flat, NONE};
use super::order;
use super::report::Findings;
use super::trace;
use crate::{Answer, Check};

/// Atoms that one search may look at before clocks take over.
const SEARCH: usize = 4096;
/// Batches of searches, each with a budget of its own.
const BATCHES: usize = 8;
/// Threadblocks that a pass of clocks over the whole graph serves.
const WIDTH: usize = 16;
/// Pairs that are put to the test by runs, where the rule of happens-before does not see every order.
const TRIALS: usize = 256;

/// Two accesses to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    early: u32,
    late: u32,
    location: u32,
    early_writes: bool,
    late_writes: bool,
}

/// What was found.
pub(super) struct Races {
    /// Unordered for certain.
    races: Vec<Pair>,
    /// Unordered as far as the rule sees, and not tried.
    open: Vec<Pair>,
    places: usize,
    crossing: usize,
    /// What the SMT proof says about the open pairs.
    settled: Option<Settled>,
}

/// Open pairs that are open no more.
struct Settled {
    pairs: usize,
    /// The race that was found among them.
    race: Option<(Diagnostic, Vec<(super::Location, String)>)>,
}

/// Calls `visit(rank, first location, slots, writes)` for each access of an atom; reads come first.
pub(super) fn accesses(flat: &Flat<'_>, atoms: &Atoms, atom: u32, mut visit: impl FnMut(u32, u32, u32, bool)) {
    let atom = &atoms.list[atom as usize];
    let me = flat.tbs[atom.tb as usize].rank;
    let places = &flat.places;
    match &flat.ops[atom.op as usize].op.kind {
        OperationKind::Move { receive, local, store, send, count } => {
            let (offset, count) =
                if (receive.is_some() || send.is_some()) && atoms.split { (atom.offset, 1) } else { (0, *count) };
            if let Some(place) = local {
                visit(me, places.locate(me, *place) + offset, count, false);
            }
            if let Some(place) = store {
                visit(me, places.locate(me, *place) + offset, count, true);
            }
        }
        OperationKind::Reduce { sources, dst, count } => {
            for &source in sources {
                visit(me, places.locate(me, source), *count, false);
            }
            visit(me, places.locate(me, *dst), *count, true);
        }
        OperationKind::Put { src, to, op: _, count } => {
            visit(me, places.locate(me, *src), *count, false);
            for &(peer, place) in to {
                visit(peer.number(), places.locate(peer.number(), place), *count, true);
            }
        }
        OperationKind::Get { from, dst, op: _, count } => {
            for &(peer, place) in from {
                visit(peer.number(), places.locate(peer.number(), place), *count, false);
            }
            visit(me, places.locate(me, *dst), *count, true);
        }
        OperationKind::Nop
        | OperationKind::Signal { .. }
        | OperationKind::Wait { .. }
        | OperationKind::Barrier { .. }
        | OperationKind::Loop { .. } => {}
    }
}

/// Finds all races between neighbours.
pub(super) fn races(flat: &Flat<'_>, atoms: &Atoms, order: &[u32], positions: &[u32]) -> Races {
    races_within(flat, atoms, order, positions, SEARCH)
}

/// The same with another limit of one search; the answer does not depend on it.
pub(super) fn races_within(flat: &Flat<'_>, atoms: &Atoms, order: &[u32], positions: &[u32], search: usize) -> Races {
    let ranks = flat.rank_tbs.len() - 1;
    // Atoms that touch a rank's memory or belong to it, in the total order.
    let mut lists: Vec<Vec<u32>> = (0..ranks)
        .map(|rank| {
            let (first, end) = (flat.rank_tbs[rank] as usize, flat.rank_tbs[rank + 1] as usize);
            Vec::with_capacity((atoms.start[end] - atoms.start[first]) as usize)
        })
        .collect();
    for &atom in order {
        let me = flat.tbs[atoms.list[atom as usize].tb as usize].rank;
        lists[me as usize].push(atom);
        match &flat.ops[atoms.list[atom as usize].op as usize].op.kind {
            OperationKind::Put { to: peers, .. } | OperationKind::Get { from: peers, .. } => {
                for (peer, _) in peers {
                    if peer.number() != me && lists[peer.index()].last() != Some(&atom) {
                        lists[peer.index()].push(atom);
                    }
                }
            }
            _ => {}
        }
    }
    let of_ranks: Vec<(usize, Vec<Pair>)> =
        lists.par_iter().enumerate().map(|(rank, list)| of_rank(flat, atoms, rank, list)).collect();
    let crossing = of_ranks.iter().map(|(crossing, _)| crossing).sum();
    let open: Vec<Pair> = of_ranks.into_iter().flat_map(|(_, open)| open).collect();
    let mut races = unordered(flat, atoms, order, positions, open, search);
    races.sort_unstable_by_key(|pair| (positions[pair.late as usize], positions[pair.early as usize], pair.location));
    let mut open = Vec::new();
    if atoms.approximate {
        // The total order runs `early` first. It is a race if another run has `late` first.
        let mut tried: FxHashMap<(u32, u32), bool> = FxHashMap::default();
        let mut certain = Vec::new();
        for pair in races {
            let trials = tried.len();
            match tried.entry((pair.early, pair.late)) {
                std::collections::hash_map::Entry::Vacant(_) if trials == TRIALS => open.push(pair),
                entry => {
                    let &mut races = entry.or_insert_with(|| order::can_precede(flat, atoms, pair.late, pair.early));
                    if races {
                        certain.push(pair);
                    }
                }
            }
        }
        races = certain;
    }
    Races { races, open, places: flat.places.len(), crossing, settled: None }
}

/// The latest accesses to the places of a rank.
struct Latest {
    write: Vec<u32>,
    /// First entry of each place in `entries`, or [`NONE`].
    reads: Vec<u32>,
    /// Atom and next entry.
    entries: Vec<(u32, u32)>,
    free: u32,
}

/// Neighbours of one rank's memory that clocks within the rank do not order; and how many were of different threadblocks.
fn of_rank(flat: &Flat<'_>, atoms: &Atoms, rank: usize, list: &[u32]) -> (usize, Vec<Pair>) {
    let first_tb = flat.rank_tbs[rank];
    let own_tbs = first_tb..flat.rank_tbs[rank + 1];
    let foreign = list.iter().any(|&atom| !own_tbs.contains(&atoms.list[atom as usize].tb));
    if own_tbs.len() <= 1 && !foreign {
        return (0, Vec::new());
    }
    let base = flat.places.base[rank];
    let slots = (flat.places.base[rank + 1] - base) as usize;
    let mut latest = Latest { write: vec![NONE; slots], reads: vec![NONE; slots], entries: Vec::new(), free: NONE };
    let mut clocks = Clocks::new(own_tbs.len(), first_tb);
    let (mut crossing, mut open) = (0, Vec::<Pair>::new());
    for &number in list {
        let atom = &atoms.list[number as usize];
        let own = own_tbs.contains(&atom.tb);
        if own && atom.extra != NONE {
            clocks.enter(atoms, &own_tbs, number);
        }
        let mut ordered = |early: u32, clocks: &Clocks| {
            let early_tb = atoms.list[early as usize].tb;
            if early_tb == atom.tb {
                return true;
            }
            crossing += 1;
            own && own_tbs.contains(&early_tb) && clocks.knows(atom.tb, early_tb, early)
        };
        accesses(flat, atoms, number, |of, first, count, writes| {
            if of as usize != rank {
                return;
            }
            for location in first..first + count {
                let at = (location - base) as usize;
                let mut look = |early: u32, early_writes: bool| {
                    if early != number && !ordered(early, &clocks) {
                        let pair = Pair { early, late: number, location, early_writes, late_writes: writes };
                        let known = open.last().is_some_and(|last| last.early == early && last.late == number);
                        if !known {
                            open.push(pair);
                        }
                    }
                };
                if latest.write[at] != NONE {
                    look(latest.write[at], true);
                }
                if writes {
                    let mut entry = std::mem::replace(&mut latest.reads[at], NONE);
                    while entry != NONE {
                        let (read, next) = latest.entries[entry as usize];
                        look(read, false);
                        latest.entries[entry as usize].1 = latest.free;
                        latest.free = entry;
                        entry = next;
                    }
                    latest.write[at] = number;
                } else {
                    latest.read(at, number, |read| atoms.list[read as usize].tb == atom.tb);
                }
            }
        });
        if own {
            clocks.leave(atoms, number);
        }
    }
    (crossing, open)
}

impl Latest {
    /// Notes a read; it takes the place of an earlier one of its threadblock.
    fn read(&mut self, at: usize, atom: u32, same: impl Fn(u32) -> bool) {
        let mut entry = self.reads[at];
        while entry != NONE {
            let (read, next) = self.entries[entry as usize];
            if same(read) {
                self.entries[entry as usize].0 = atom;
                return;
            }
            entry = next;
        }
        let fresh = (atom, self.reads[at]);
        if self.free == NONE {
            self.reads[at] = super::form::index(self.entries.len());
            self.entries.push(fresh);
        } else {
            let entry = self.free;
            self.free = self.entries[entry as usize].1;
            self.entries[entry as usize] = fresh;
            self.reads[at] = entry;
        }
    }
}

/// Clocks over the threadblocks of a rank: what each knows of each, by edges within the rank.
struct Clocks {
    width: usize,
    first: u32,
    /// By threadblock: the end of what it knows of each threadblock.
    rows: Vec<u32>,
    /// What was known after atoms that others may hear of.
    known: FxHashMap<u32, u32>,
    snapshots: Vec<u32>,
}

impl Clocks {
    fn new(width: usize, first: u32) -> Self {
        Self { width, first, rows: vec![0; width * width], known: FxHashMap::default(), snapshots: Vec::new() }
    }

    fn row(&self, tb: u32) -> usize {
        (tb - self.first) as usize * self.width
    }

    /// Takes over what is known at the atoms before this one.
    fn enter(&mut self, atoms: &Atoms, own: &std::ops::Range<u32>, number: u32) {
        let atom = &atoms.list[number as usize];
        let row = self.row(atom.tb);
        let Self { width, first, rows, known, snapshots } = self;
        atoms.before(atom, |before| {
            let tb = atoms.list[before as usize].tb;
            if !own.contains(&tb) || tb == atom.tb {
                return;
            }
            let mine = &mut rows[row..row + *width];
            let column = (tb - *first) as usize;
            mine[column] = mine[column].max(before + 1);
            if let Some(&snapshot) = known.get(&before) {
                let snapshot = snapshot as usize * *width;
                for (mine, theirs) in mine.iter_mut().zip(&snapshots[snapshot..snapshot + *width]) {
                    *mine = (*mine).max(*theirs);
                }
            }
        });
    }

    /// Keeps what is known after an atom that others may hear of.
    fn leave(&mut self, atoms: &Atoms, number: u32) {
        if !atoms.heard[number as usize] {
            return;
        }
        let row = self.row(atoms.list[number as usize].tb);
        // A threadblock that knows nothing has nothing to tell but its own progress.
        if self.rows[row..row + self.width].iter().all(|&end| end == 0) {
            return;
        }
        self.known.insert(number, super::form::index(self.snapshots.len() / self.width));
        self.snapshots.extend_from_slice(&self.rows[row..row + self.width]);
    }

    fn knows(&self, tb: u32, other: u32, atom: u32) -> bool {
        atom < self.rows[self.row(tb) + (other - self.first) as usize]
    }
}

/// The pairs that are not ordered in the whole graph.
fn unordered(
    flat: &Flat<'_>,
    atoms: &Atoms,
    order: &[u32],
    positions: &[u32],
    pairs: Vec<Pair>,
    search: usize,
) -> Vec<Pair> {
    if pairs.is_empty() {
        return pairs;
    }
    let chunk = pairs.len().div_ceil(BATCHES).max(64);
    let searched: Vec<Option<bool>> = pairs
        .par_chunks(chunk)
        .flat_map_iter(|chunk| {
            let mut search = Search::new(atoms.list.len(), search);
            chunk.iter().map(|pair| search.reaches(atoms, positions, pair.early, pair.late)).collect::<Vec<_>>()
        })
        .collect();
    let mut unordered = Vec::new();
    let mut open = Vec::new();
    for (pair, answer) in pairs.into_iter().zip(searched) {
        match answer {
            Some(true) => {}
            Some(false) => unordered.push(pair),
            None => open.push(pair),
        }
    }
    let mut sources: Vec<u32> = open.iter().map(|pair| atoms.list[pair.early as usize].tb).collect();
    sources.sort_unstable();
    sources.dedup();
    open.sort_unstable_by_key(|pair| atoms.list[pair.early as usize].tb);
    let batches: Vec<Vec<Pair>> = sources
        .par_chunks(WIDTH)
        .map(|columns| {
            let of = |pair: &Pair| columns.binary_search(&atoms.list[pair.early as usize].tb);
            let clocks = whole_clocks(flat, atoms, order, columns);
            open.iter()
                .filter(|pair| of(pair).is_ok_and(|column| clocks[pair.late as usize][column] <= pair.early))
                .copied()
                .collect()
        })
        .collect();
    unordered.extend(batches.into_iter().flatten());
    unordered
}

/// By atom: the end of what it knows of each of these threadblocks, over the whole graph.
fn whole_clocks(flat: &Flat<'_>, atoms: &Atoms, order: &[u32], columns: &[u32]) -> Vec<[u32; WIDTH]> {
    let mut column_of = vec![NONE; flat.tbs.len()];
    for (column, &tb) in (0_u32..).zip(columns) {
        column_of[tb as usize] = column;
    }
    let mut clocks = vec![[0; WIDTH]; atoms.list.len()];
    for &number in order {
        let atom = &atoms.list[number as usize];
        let mut clock = [0; WIDTH];
        let mut merge = |before: u32| {
            let other: &[u32; WIDTH] = &clocks[before as usize];
            for (mine, theirs) in clock.iter_mut().zip(other) {
                *mine = (*mine).max(*theirs);
            }
            let column = column_of[atoms.list[before as usize].tb as usize];
            if column != NONE {
                clock[column as usize] = clock[column as usize].max(before + 1);
            }
        };
        if number != atoms.start[atom.tb as usize] {
            merge(number - 1);
        }
        atoms.before(atom, &mut merge);
        clocks[number as usize] = clock;
    }
    clocks
}

/// Searches backwards, the nearest edges first, never before the place of the goal in the total order.
struct Search {
    /// By atom: the last search that met it.
    met: Vec<u32>,
    number: u32,
    stack: Vec<u32>,
    /// Atoms that one search may look at.
    limit: usize,
    /// Atoms that may still be looked at, in all searches.
    budget: usize,
}

impl Search {
    fn new(atoms: usize, limit: usize) -> Self {
        Self { met: vec![0; atoms], number: 0, stack: Vec::new(), limit, budget: SEARCH.max(2 * atoms) }
    }

    /// Whether `early` happens before `late`; `None` if that takes too long to find out.
    fn reaches(&mut self, atoms: &Atoms, positions: &[u32], early: u32, late: u32) -> Option<bool> {
        self.number += 1;
        let goal_tb = atoms.list[early as usize].tb;
        let goal = positions[early as usize];
        let Self { met, number, stack, limit, budget } = self;
        stack.clear();
        stack.push(late);
        let mut work = 0;
        while let Some(at) = stack.pop() {
            let atom = &atoms.list[at as usize];
            if atom.tb == goal_tb && early <= at {
                return Some(true);
            }
            if std::mem::replace(&mut met[at as usize], *number) == *number {
                continue;
            }
            work += 1;
            if *limit < work || *budget == 0 {
                return None;
            }
            *budget -= 1;
            // Other threadblocks are looked at first: they go on top.
            if at != atoms.start[atom.tb as usize] && goal < positions[at as usize - 1] {
                stack.push(at - 1);
            }
            atoms.before(atom, |before| {
                if goal <= positions[before as usize] {
                    stack.push(before);
                }
            });
        }
        Some(false)
    }
}

impl Races {
    /// The pairs of atoms that race for certain.
    #[cfg(test)]
    pub(super) fn pairs(&self) -> Vec<(u32, u32, u32)> {
        self.races.iter().map(|pair| (pair.early, pair.late, pair.location)).collect()
    }

    /// Takes over what the SMT proof, which decides all pairs, says about those that are open: there is no race, or this one.
    pub(super) fn settle(&mut self, race: Option<(Diagnostic, Vec<(super::Location, String)>)>) {
        if !self.open.is_empty() {
            self.settled = Some(Settled { pairs: std::mem::take(&mut self.open).len(), race });
        }
    }

    /// The check and its findings. For the first races also a run that goes wrong; `right` says whether the run in `order`
    /// computes what it should.
    pub(super) fn report(
        &self,
        flat: &Flat<'_>,
        atoms: &Atoms,
        (order, right): (&[u32], bool),
        collective: &Collective,
        findings: &mut Findings,
    ) -> Check {
        /// Races for which another run is executed.
        const EXECUTED: usize = 2;
        let Self { races, open, places, crossing, settled } = self;
        // One finding for two instructions, however many slots they share.
        let mut told: FxHashMap<(u32, u32), ()> = FxHashMap::default();
        let mut positions: Option<Vec<u32>> = None;
        for pair in races {
            let ops = (atoms.list[pair.early as usize].op, atoms.list[pair.late as usize].op);
            if told.insert(ops, ()).is_none() {
                let (mut diagnostic, locations) = self.finding(flat, atoms, pair, false);
                if told.len() <= EXECUTED && pair.early != pair.late {
                    let positions = positions.get_or_insert_with(|| order::positions(order));
                    let two = (pair.early, pair.late);
                    diagnostic.notes.extend(trace::other_way(flat, atoms, (order, right), positions, two, collective));
                }
                findings.add(diagnostic, locations);
            }
        }
        for pair in open.iter().take(1) {
            let (diagnostic, locations) = self.finding(flat, atoms, pair, true);
            findings.add(diagnostic, locations);
        }
        let mut detail = format!("{places} places, {crossing} neighbouring accesses of different threadblocks");
        if let Some(Settled { pairs, race }) = settled {
            detail.push_str(&format!("; {pairs} pairs that rest on a choice of signals were decided by the SMT proof"));
            if let Some((diagnostic, locations)) = race
                && races.is_empty()
            {
                findings.add(diagnostic.clone(), locations.clone());
                return super::check("no-race", Answer::Refuted, detail);
            }
        }
        if !races.is_empty() {
            super::check("no-race", Answer::Refuted, format!("{} races; {detail}", told.len()))
        } else if open.is_empty() {
            super::check("no-race", Answer::Proved, detail)
        } else {
            let why = "a counter with several signalling threadblocks is waited for below its total";
            super::check("no-race", Answer::Unknown, format!("{why}, and {} pairs stay open; {detail}", open.len()))
        }
    }

    fn finding(
        &self,
        flat: &Flat<'_>,
        atoms: &Atoms,
        pair: &Pair,
        open: bool,
    ) -> (Diagnostic, Vec<(super::Location, String)>) {
        let (early, late) =
            (flat.location(atoms.list[pair.early as usize].op), flat.location(atoms.list[pair.late as usize].op));
        let (rank, place): (u32, Place) = flat.places.place(pair.location);
        let verb = |writes: bool| if writes { "writes" } else { "reads" };
        let what = format!("{}.{place}", RankId::from(rank));
        let pair_of = if pair.early == pair.late { "itself".to_owned() } else { late.to_string() };
        let message =
            format!("{early} {} {what} while {pair_of} {} it", verb(pair.early_writes), verb(pair.late_writes));
        let locations = vec![
            (early, format!("{} {what}", verb(pair.early_writes))),
            (late, format!("{} {what}", verb(pair.late_writes))),
        ];
        if open {
            let diagnostic = Diagnostic::warning("V121", format!("it was not decided whether {message}")).note(
                "the order rests on a counter that several threadblocks signal and that is waited for below its total",
            );
            return (diagnostic, locations);
        }
        let diagnostic = Diagnostic::error("V117", message)
            .note("nothing orders the two: a runtime may run either first")
            .help(format!(
                "let the later one wait for the earlier one, {early} (MSCCL: depid and deps, and hasdep there)"
            ));
        (diagnostic, locations)
    }
}
