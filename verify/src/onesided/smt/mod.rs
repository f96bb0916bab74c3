//! A second opinion about one-sided programs, by an SMT solver.
//!
//! The program is unrolled anew, by code that knows [`rondo_ir::onesided`] alone, into events and orders between them; each order
//! holds for a run only, for reads before writes, or for everything (`events`). What is asked (`query`):
//!
//! - `smt-no-deadlock`: a model is a run of all events. Counters only grow and one thread waits on each, so nothing is taken
//!   away from anybody: `sat` proves that every run finishes, `unsat` that none does.
//! - `smt-no-race`: can two conflicting accesses lack the order that they need? It covers `no-race`, `contained` and
//!   `repeats`: accesses of one call, of two calls, and of a call and the caller before and after it. `unsat` proves that they cannot.
//! - `smt-completes`: one run with a variable for each input slot; is there an output place that differs from its postcondition
//!   for some inputs? `unsat` proves the result for all inputs, and without races for all runs.
//!
//! Where several threads signal a counter in no fixed order, the graph algorithm knows only the signals without which a wait
//! cannot pass. Here the waits count what came before them, whichever it is, and the answer decides.

mod events;
mod query;

#[cfg(test)]
mod tests;

use std::io;

use rayon::prelude::*;
use rondo_ir::collective::{Buffer, Layout, Place};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::RankId;
use rondo_ir::onesided::OneSidedProgram;
use rustc_hash::FxHashMap;

use super::{OneSidedOptions, build};
use crate::program::smt::symbolic::Terms;
use crate::program::smt::{self as shared, Opinion, ProgramCertificate, ProgramSmtOptions, Shared};
use crate::program::{Findings, Location};
use crate::smt::{self, CertificateError, Node, Query};
use crate::{Answer, Check, Claim, SmtMode};
pub(super) use events::Conflict;
use events::{Cells, Events, Need};
use query::{Question, RaceQuestions};

/// Conflicts that are asked about one by one.
const ONE_BY_ONE: usize = 64;

/// A deliberate mistake of the reading, so that tests can show that the exact checker would expose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(super) enum Defect {
    /// Correct.
    None,
    /// Forgets the first order between a signal and a wait.
    DropOrder,
    /// Waits with a choice wait for nothing.
    IgnoreCount,
    /// The first sum adds nothing.
    DropTerm,
}

/// The program as read for the solver.
pub(super) struct Second<'a> {
    options: ProgramSmtOptions,
    defect: Defect,
    layout: Layout<'a>,
    halves: u32,
    slots_per_chunk: u32,
    events: Events<'a>,
    run: Vec<u32>,
}

/// Names of what both engines decide, and of the second opinion about it.
const SHARED: [Shared; 3] = [
    Shared { exact: &["no-deadlock"], name: "smt-no-deadlock" },
    Shared { exact: &["no-race", "contained", "repeats"], name: "smt-no-race" },
    Shared { exact: &["completes"], name: "smt-completes" },
];

/// Adds the checks of the second opinion.
pub(super) fn compare(
    opinions: [Result<Opinion, String>; 3],
    mode: SmtMode,
    checks: &mut Vec<Check>,
    findings: &mut Findings,
) {
    shared::compare(SHARED, opinions, mode, checks, findings);
}

impl<'a> Second<'a> {
    /// Reads the program, whose counters balance and whose places exist; or says why it is not asked about.
    pub(super) fn new(
        claim: &'a Claim,
        program: &'a OneSidedProgram,
        options: ProgramSmtOptions,
        defect: Defect,
    ) -> Result<Self, String> {
        let layout = claim.collective.layout(program.chunks).map_err(|error| error.to_string())?;
        let events = Events::read(program, options.max_events, defect)?;
        let limit = options.max_chosen_events;
        if !events.counts.is_empty() && limit < events.list.len() {
            let found = events.list.len();
            return Err(format!(
                "it is open which signals a wait hears of, among {found} events; the limit is {limit}"
            ));
        }
        let run = events.run();
        let halves = program.scratch_halves.max(1);
        Ok(Self { options, defect, layout, halves, slots_per_chunk: program.slots_per_chunk.max(1), events, run })
    }

    fn ask(&self, question: &Question) -> Result<bool, String> {
        let (text, assertions) = question.text(&self.events);
        smt::asks(question.logic(), &text, assertions, &self.options.of_query())
    }

    fn finishes(&self) -> bool {
        self.run.len() == self.events.list.len()
    }

    pub(super) fn no_deadlock(&self) -> Opinion {
        let question = query::finishes(&self.events, &self.run);
        let (events, orders) = (self.events.list.len(), self.events.orders.len());
        match self.ask(&question) {
            Err(reason) => Opinion::unknown(reason),
            Ok(true) => {
                let detail = format!("there is a run of all events: {events} events, {orders} orders");
                Opinion { answer: Answer::Proved, detail }
            }
            Ok(false) if question.expected => Opinion::unknown("the solver does not accept a run"),
            Ok(false) => {
                Opinion { answer: Answer::Refuted, detail: format!("there is no run of all events: {events} events") }
            }
        }
    }

    /// The number of conflicts, and the questions about them.
    fn race_questions(&self) -> Result<(usize, RaceQuestions), String> {
        if !self.finishes() {
            return Err("no run finishes".to_owned());
        }
        let cells = Cells::new(self.layout, self.halves);
        let conflicts = events::conflicts(&self.events, &cells, &self.run, self.options.max_conflicts)?;
        Ok((conflicts.len(), query::races(&self.events, &conflicts, &self.run)))
    }

    /// An answer for accesses of one call, of several, and of the caller; and what refutes it.
    pub(super) fn no_race(&self) -> (Opinion, Option<Conflict>) {
        let (pairs, questions) = match self.race_questions() {
            Ok(found) => found,
            Err(reason) => return (Opinion::unknown(reason), None),
        };
        let asked = |extra: usize| {
            let queries = shared::queries_text(questions.slices.len() + extra);
            format!("{pairs} pairs of conflicting accesses in {queries}")
        };
        let unsure: Vec<String> = questions
            .slices
            .par_iter()
            .filter_map(|slice| match self.ask(slice) {
                Ok(false) => None,
                Ok(true) => Some(format!("{} are not ordered by the orders they were given", slice.title)),
                Err(reason) => Some(reason),
            })
            .collect();
        if let Some(reason) = unsure.into_iter().next() {
            return (Opinion::unknown(format!("{reason}; {}", asked(0))), None);
        }
        let definite = |conflict: &&(Conflict, Question)| self.is_fault(&conflict.0);
        if let Some((conflict, question)) = questions.unordered.iter().find(definite) {
            return match self.ask(question) {
                Ok(true) => self.refuted(conflict, &asked(1)),
                Ok(false) => (Opinion::unknown(format!("the solver does not confirm a race; {}", asked(1))), None),
                Err(reason) => (Opinion::unknown(reason), None),
            };
        }
        let mut told = "some are ordered by something relaxed only, or by the caller";
        let mut undecided = !questions.unordered.is_empty() || !questions.weak.is_empty();
        if !questions.open.is_empty() {
            match self.ask(&query::open("races that a run decides", &self.events, &questions.open)) {
                Ok(false) => {}
                Err(reason) => return (Opinion::unknown(format!("{reason}; {}", asked(1))), None),
                Ok(true) => {
                    undecided = true;
                    let mut pairs: Vec<&Conflict> =
                        questions.open.iter().filter(|conflict| self.is_fault(conflict)).collect();
                    if ONE_BY_ONE < pairs.len() {
                        pairs.truncate(ONE_BY_ONE);
                        told = "some lack an order in some runs, and there are too many to ask about each";
                    }
                    let race = pairs
                        .into_iter()
                        .find(|conflict| self.ask(&query::at_once_in_some_run(&self.events, conflict)) == Ok(true));
                    if let Some(conflict) = race {
                        return self.refuted(conflict, &asked(1));
                    }
                }
            }
        }
        let asked = asked(usize::from(!questions.open.is_empty()));
        if undecided {
            return (Opinion::unknown(format!("{told}; {asked}")), None);
        }
        (Opinion { answer: Answer::Proved, detail: format!("always in the order that they need: {asked}") }, None)
    }

    /// Whether the lack of any order is an error.
    fn is_fault(&self, conflict: &Conflict) -> bool {
        let [one, other] = [conflict.first, conflict.second].map(|event| &self.events.list[event as usize]);
        let threadblock = |event: &events::Event<'_>| event.code.map(|(tb, _)| (event.rank, tb));
        let guess = one.call == other.call && threadblock(one) == threadblock(other) && one.alike(other);
        match conflict.need {
            Need::Begins => false,
            Need::SameCall => !guess,
            Need::Returned | Need::Repeats => true,
        }
    }

    fn refuted(&self, conflict: &Conflict, asked: &str) -> (Opinion, Option<Conflict>) {
        let detail = format!("{}; {asked}", self.words(conflict));
        (Opinion { answer: Answer::Refuted, detail }, Some(*conflict))
    }

    fn words(&self, conflict: &Conflict) -> String {
        let owner = RankId::from(conflict.owner);
        let place = self.place(conflict.owner, conflict.place);
        let [one, other] = [conflict.first, conflict.second].map(|event| self.events.list[event as usize]);
        match conflict.need {
            Need::Begins => format!("{} can touch {place} before {owner} begins its call", other.location()),
            Need::Returned => format!("{} can touch {place} after the call of {owner} returned", one.location()),
            Need::SameCall => format!("{} and {} can touch {place} at once", one.location(), other.location()),
            Need::Repeats => {
                format!("{} in one call and {} in another can touch {place} at once", one.location(), other.location())
            }
        }
    }

    fn place(&self, rank: u32, place: Place) -> String {
        let letter = match place.buffer() {
            Buffer::Input => "input",
            Buffer::Output => "output",
            Buffer::Scratch => "scratch",
        };
        format!("{letter} chunk {} of {}", place.slot() / self.slots_per_chunk, RankId::from(rank))
    }

    /// The exact checks that a race refutes, and a finding about it.
    pub(super) fn race_finding(&self, race: &Conflict) -> (&'static str, Diagnostic, Vec<(Location, String)>) {
        let [one, other] = [race.first, race.second].map(|event| self.events.list[event as usize]);
        let (name, code) = match race.need {
            Need::SameCall | Need::Begins => ("no-race", "V117"),
            Need::Returned => ("contained", "V143"),
            Need::Repeats => ("repeats", "V145"),
        };
        let diagnostic = Diagnostic::error(code, self.words(race))
            .note("several threads signal one counter, and a wait may hear of the others first")
            .help("wait for more signals, or give each thread a counter of its own");
        let located = |event: events::Event<'_>| event.code.map(|_| (event.location(), "touches it".to_owned()));
        (name, diagnostic, [one, other].into_iter().filter_map(located).collect())
    }

    /// What the output places hold after one run of the first call.
    fn results(&self) -> Result<Vec<Query>, String> {
        let cells = Cells::new(self.layout, self.halves);
        let mut terms = Terms::new(self.layout);
        let mut held: FxHashMap<(u32, Place, bool, u32), u32> = FxHashMap::default();
        for (rank, place, node) in terms.start() {
            held.insert((rank, cells.canonical(rank, place), false, 0), node);
        }
        let mut forget = self.defect == Defect::DropTerm;
        for &number in &self.run {
            let event = &self.events.list[number as usize];
            let Some((transfer, slot)) = event.moves.filter(|_| event.call == 0) else { continue };
            let mut sum = None;
            for site in &transfer.sources {
                let cell = cells.cell(site, slot, 0);
                let Some(&value) = held.get(&cell) else {
                    let place = self.place(cell.0, cell.1);
                    return Err(format!("{} reads {place}, which is undefined then", event.location()));
                };
                sum = Some(match sum {
                    None => value,
                    Some(sum) if std::mem::take(&mut forget) => sum,
                    Some(sum) => terms.node(Node::Add(sum, value)),
                });
            }
            let sum = sum.ok_or_else(|| format!("{} has no value", event.location()))?;
            for site in &transfer.targets {
                let cell = cells.cell(site, slot, 0);
                if cell.1.buffer() == Buffer::Input && !self.layout.writable(cell.1) {
                    let owner = RankId::from(cell.0);
                    return Err(format!("{} overwrites the caller's input of {owner}", event.location()));
                }
                held.insert(cell, sum);
            }
        }
        terms.queries(|rank, slot| held.get(&(rank, cells.canonical(rank, Place::output(slot)), false, 0)).copied())
    }

    /// The result of one run; of every run if there is no race.
    pub(super) fn completes(&self) -> Opinion {
        if !self.finishes() {
            return Opinion::unknown("not run: no run finishes");
        }
        match self.results() {
            Ok(queries) => shared::results(&queries, &self.options.of_query()),
            Err(fault) => Opinion { answer: Answer::Refuted, detail: fault },
        }
    }

    /// Writes all queries, for a program that is proved.
    fn write(&self, out: &mut dyn io::Write) -> io::Result<ProgramCertificate> {
        let mut certificate = ProgramCertificate { queries: 0, left_out: Vec::new() };
        let mut questions = vec![query::finishes(&self.events, &self.run)];
        match self.race_questions() {
            Err(reason) => certificate.left_out.push(format!("races: {reason}")),
            Ok((_, found)) => {
                questions.extend(found.slices);
                questions.extend(found.unordered.into_iter().map(|(_, question)| question));
                if !found.open.is_empty() {
                    questions.push(query::open("races that a run decides", &self.events, &found.open));
                }
                if !found.weak.is_empty() {
                    certificate.left_out.push(format!("{} pairs are ordered by something relaxed", found.weak.len()));
                }
            }
        }
        for question in questions {
            let status = if question.expected { "sat" } else { "unsat" };
            let (text, _) = question.text(&self.events);
            writeln!(out, "; query {}: {}", certificate.queries, question.title)?;
            writeln!(out, "(push 1)\n{text}(set-info :status {status})\n(check-sat)\n(pop 1)")?;
            certificate.queries += 1;
        }
        match self.results() {
            Err(reason) => certificate.left_out.push(format!("completes: {reason}")),
            Ok(queries) => {
                for query in queries {
                    let wrong = query.checks.iter().any(|check| query.difference(check).is_some());
                    smt::write_query(out, certificate.queries, &query, wrong)?;
                    certificate.queries += 1;
                }
            }
        }
        Ok(certificate)
    }
}

/// Writes the questions of the second opinion about a proved program as SMT-LIB 2 text, as
/// [`crate::program::program_certificate`] does. Needs no solver, and works without the feature `smt`.
///
/// # Errors
/// [`CertificateError`]: the writer fails, or the program is not well formed, not asked about or has too many events.
pub fn onesided_certificate(
    claim: &Claim,
    program: &OneSidedProgram,
    options: &OneSidedOptions,
    out: &mut dyn io::Write,
) -> Result<ProgramCertificate, CertificateError> {
    let refused = |reason: String| CertificateError::Refused { reason };
    let mut findings = Findings::new(1);
    if let Err(stop) = build::build(claim, program, options, &mut findings) {
        return Err(refused(match stop {
            build::Stop::Undecided(why) => why,
            build::Stop::Refuted => "the program is not well formed".to_owned(),
        }));
    }
    let second = Second::new(claim, program, options.smt_options, Defect::None).map_err(refused)?;
    let mut body = Vec::new();
    let certificate = second.write(&mut body)?;
    let ProgramCertificate { queries, left_out } = &certificate;
    let name: String = program.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let calls = program.scratch_halves.max(1) + 1;
    writeln!(out, "; one-sided program {name}, as {}, {calls} calls in a row: {queries} queries", claim.collective)?;
    writeln!(out, "; each check-sat must answer what :status says before it")?;
    writeln!(out, "; no deadlock: pN is the time of event N; a model is a run of all events: sat")?;
    writeln!(out, "; no race: sN respects orders that make written data visible, tN all orders; two conflicting")?;
    writeln!(out, "; accesses lack the order that they need: unsat")?;
    writeln!(out, "; completes: x_P_S is input slot S of rank P, tN a sum of two terms; an output place holds")?;
    writeln!(out, "; something else than it must: unsat")?;
    for reason in left_out {
        writeln!(out, "; left out: {reason}")?;
    }
    writeln!(out, "(set-logic QF_LIA)")?;
    out.write_all(&body)?;
    Ok(certificate)
}
