//! A second opinion about programs, by an SMT solver.
//!
//! # What is asked
//! The program is read anew, by code that knows [`rondo_ir::program`] alone, into events (an operation; a slot of what is sent
//! or received; arriving at a barrier and leaving it) and orders between them: program order; the k-th send before the k-th
//! receive; the publication waited for before the waiter; arrivals before leavings; signals before the wait that needs them; and
//! the k-th receive before send k + depth, which only a run must respect, since data may not rely on it. Each event has an
//! integer, its time.
//!
//! - `smt-no-deadlock`: a model is a run of all events, so `sat` proves that the program finishes and `unsat` refutes it. Nothing
//!   in a program chooses and nothing is taken away from anybody, so that one run finishes means that all do.
//! - `smt-no-race`: are there times, room left aside, such that two conflicting accesses happen at once? Two that may happen
//!   in either order may also happen at once: hold both back until nothing else can run. `unsat` proves that there is no race.
//! - `smt-completes`: one run with a variable for each input slot; is there an output place that differs from its postcondition
//!   for some inputs? As in [`crate::smt`], `unsat` proves the result for all inputs, and, if there is no race, for all runs.
//!
//! Where several threadblocks signal one counter and a wait asks for less than their total, which signals it waits for is a
//! choice: a Boolean for each, of which enough must hold. There the graph algorithm may be undecided, and this decides.
//!
//! # Limits
//! Programs with more events or conflicts than [`ProgramSmtOptions`] allows are not asked about, and the report says so.

mod events;
mod query;
pub(crate) mod symbolic;

pub(crate) fn queries_text(count: usize) -> String {
    if count == 1 { "1 query".to_owned() } else { format!("{count} queries") }
}

#[cfg(test)]
mod tests;

use std::io;

use rayon::prelude::*;
use rondo_ir::collective::Layout;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::RankId;
use rondo_ir::program::Program;

use super::report::Findings;
use super::{Location, ProgramOptions, form};
use crate::smt::{self, CertificateError, Query, QueryOutcome, SmtOptions};
use crate::{Answer, Check, Claim, SmtMode};
use events::{Events, Memory, Reading};
use query::{OrderQuery, RaceQueries};
use symbolic::Symbolic;

/// Limits of the second opinion. All but the time-out are reproducible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramSmtOptions {
    /// Most events after unrolling.
    pub max_events: usize,
    /// Most pairs of conflicting accesses of different threadblocks.
    pub max_conflicts: usize,
    /// Most events of programs in which it is open whose signals a wait waits for: the solver has to search there.
    pub max_chosen_events: usize,
    /// Z3's resource limit for each query; 0 means none.
    pub rlimit: u32,
    /// Milliseconds for each query: a backstop, not a budget; 0 means none.
    pub timeout_ms: u32,
}

impl Default for ProgramSmtOptions {
    fn default() -> Self {
        Self {
            max_events: 6_000,
            max_conflicts: 20_000,
            max_chosen_events: 2_000,
            rlimit: 100_000_000,
            timeout_ms: 30_000,
        }
    }
}

impl ProgramSmtOptions {
    pub(crate) fn of_query(&self) -> SmtOptions {
        SmtOptions { rlimit: self.rlimit, timeout_ms: self.timeout_ms, ..SmtOptions::default() }
    }
}

/// A deliberate mistake of the reading, so that tests can show that the exact checker would expose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(super) enum Defect {
    /// Correct.
    None,
    /// Forgets the first dependency.
    IgnoreDependency,
    /// FIFOs never fill.
    IgnoreRoom,
    /// The first addition adds nothing.
    DropReduce,
}

/// What the solver says about one property.
#[derive(Clone, Debug)]
pub(crate) struct Opinion {
    pub(crate) answer: Answer,
    pub(crate) detail: String,
}

impl Opinion {
    pub(crate) fn unknown(detail: impl Into<String>) -> Self {
        Self { answer: Answer::Unknown, detail: detail.into() }
    }
}

/// Two accesses that race.
#[derive(Clone, Debug)]
pub(super) struct Racing {
    locations: [Location; 2],
    place: String,
}

/// The program as read for the solver.
pub(super) struct Second<'a> {
    options: ProgramSmtOptions,
    defect: Defect,
    layout: Layout<'a>,
    /// A message a slot.
    split: Events<'a>,
    /// A message an operation, if that differs.
    whole: Option<Events<'a>>,
    /// A run without regard to room.
    run: Vec<u32>,
}

impl<'a> Second<'a> {
    /// Reads the program, which must be well formed; or says why it is not asked about.
    pub(super) fn new(
        claim: &'a Claim,
        program: &'a Program,
        depth: u32,
        options: ProgramSmtOptions,
        defect: Defect,
    ) -> Result<Self, String> {
        let layout = claim.collective.layout(claim.chunks).map_err(|error| error.to_string())?;
        let limit = options.max_events;
        let read = |split| {
            Events::read(program, Reading { split, depth, limit, defect })
                .map_err(|_| format!("the program has more than {limit} events, which is the limit"))
        };
        let split = read(true)?;
        let whole = if split.wide { Some(read(false)?) } else { None };
        let run = split.run(false, &[]);
        Ok(Self { options, defect, layout, split, whole, run })
    }

    /// The questions about deadlock, with the events that they speak of.
    fn deadlock_queries(&self) -> Vec<(OrderQuery, &Events<'a>)> {
        let readings = [("a message an operation", self.whole.as_ref()), ("a message a slot", Some(&self.split))];
        readings
            .into_iter()
            .filter_map(|(how, events)| {
                let events = events?;
                Some((query::finishes(format!("a run of all events, {how}"), events), events))
            })
            .collect()
    }

    /// Where it is open whose signals a wait waits for, the solver has to search.
    fn may_search(&self) -> Result<(), String> {
        let (events, limit) = (self.split.list.len(), self.options.max_chosen_events);
        if self.split.choices.is_empty() || events <= limit {
            return Ok(());
        }
        Err(format!("it is open whose signals a wait waits for, among {events} events; the limit for that is {limit}"))
    }

    fn ask(&self, query: &OrderQuery, events: &Events<'_>) -> Result<bool, String> {
        let logic = if query.choices.is_empty() { "QF_IDL" } else { "QF_LIA" };
        smt::asks(logic, &query.text(events), query.assertions(), &self.options.of_query())
    }

    pub(super) fn no_deadlock(&self) -> Opinion {
        let mut parts = Vec::new();
        for (query, events) in self.deadlock_queries() {
            let searched = if query.expected { Ok(()) } else { self.may_search() };
            match searched.and_then(|()| self.ask(&query, events)) {
                Err(reason) => return Opinion::unknown(reason),
                Ok(false) if query.expected => return Opinion::unknown("the solver does not accept a run"),
                Ok(false) => {
                    let detail = format!("there is no {}: {} events", &query.title[2..], events.list.len());
                    return Opinion { answer: Answer::Refuted, detail };
                }
                Ok(true) => parts.push(format!("{} events, {} orders", events.list.len(), query.orders.len())),
            }
        }
        Opinion { answer: Answer::Proved, detail: format!("there is a run of all events: {}", parts.join("; ")) }
    }

    /// The questions about races; the number of conflicts; and what is asked about, by pair.
    fn race_queries(&self) -> Result<(RaceQueries, Vec<(u32, u32, String)>), String> {
        if self.run.len() != self.split.list.len() {
            return Err("no run finishes".to_owned());
        }
        self.may_search()?;
        let limit = self.options.max_conflicts;
        let mut memory = Memory::new(self.layout);
        let conflicts = events::conflicts(&self.split, &mut memory, limit)
            .map_err(|_| format!("there are more than {limit} pairs of conflicting accesses, which is the limit"))?;
        let places = conflicts.iter().map(|&(a, b, cell)| {
            let (rank, place) = memory.cells[cell as usize];
            (a, b, format!("{}.{place}", RankId::from(rank)))
        });
        Ok((query::races(&self.split, &conflicts, &self.run), places.collect()))
    }

    pub(super) fn no_race(&self) -> (Opinion, Option<Racing>) {
        let (queries, conflicts) = match self.race_queries() {
            Ok(queries) => queries,
            Err(reason) => return (Opinion::unknown(reason), None),
        };
        let unsure: Vec<String> = queries
            .slices
            .par_iter()
            .filter_map(|slice| match self.ask(slice, &self.split) {
                Ok(false) => None,
                Ok(true) => Some(format!("{} are not ordered by the orders they were given", slice.title)),
                Err(reason) => Some(reason),
            })
            .collect();
        let count = queries.slices.len() + usize::from(queries.rest.is_some());
        let asked = format!("{} pairs of conflicting accesses in {}", conflicts.len(), queries_text(count));
        if let Some(rest) = &queries.rest {
            match self.ask(rest, &self.split) {
                Err(reason) => return (Opinion::unknown(format!("{reason}; {asked}")), None),
                Ok(false) if rest.expected => {
                    return (Opinion::unknown(format!("the solver does not confirm a race; {asked}")), None);
                }
                Ok(true) if !rest.expected => {
                    return (Opinion::unknown(format!("the solver sees a race, but no run shows it; {asked}")), None);
                }
                Ok(false) => {}
                Ok(true) => {
                    let racing = self.racing(rest.pairs[0], &conflicts);
                    let Racing { locations: [one, other], place } = &racing;
                    let detail = format!("{one} and {other} can touch {place} at once; {asked}");
                    return (Opinion { answer: Answer::Refuted, detail }, Some(racing));
                }
            }
        }
        match unsure.first() {
            Some(reason) => (Opinion::unknown(format!("{reason}; {asked}")), None),
            None => {
                let detail = format!("never at once: {asked}");
                (Opinion { answer: Answer::Proved, detail }, None)
            }
        }
    }

    fn racing(&self, pair: (u32, u32), conflicts: &[(u32, u32, String)]) -> Racing {
        let at = |event: u32| self.split.list[event as usize].location();
        let found = conflicts.iter().find(|&&(a, b, _)| (a, b) == pair);
        let place = found.map_or_else(String::new, |(.., place)| place.clone());
        Racing { locations: [at(pair.0), at(pair.1)], place }
    }

    /// The result of one run; of every run if there is no race.
    pub(super) fn completes(&self) -> Opinion {
        if self.run.len() != self.split.list.len() {
            return Opinion::unknown("not run: no run finishes");
        }
        let queries = Symbolic::run(&self.split, &self.run, self.layout, self.defect).and_then(Symbolic::queries);
        let queries = match queries {
            Ok(queries) => queries,
            Err(fault) => return Opinion { answer: Answer::Refuted, detail: fault },
        };
        results(&queries, &self.options.of_query())
    }
}

/// Asks whether some output place does not hold what it must.
pub(crate) fn results(queries: &[Query], options: &SmtOptions) -> Opinion {
    let outcomes: Vec<QueryOutcome> = queries
        .par_iter()
        .map(|query| {
            if options.max_terms < query.weight() {
                let limit = options.max_terms;
                return QueryOutcome::Unknown(format!("a query would have more than {limit} terms"));
            }
            smt::solve(query, options)
        })
        .collect();
    let places: usize = queries.iter().map(|query| query.checks.len()).sum();
    let mut unknown = None;
    for outcome in outcomes {
        match outcome {
            QueryOutcome::Proved => {}
            QueryOutcome::Refuted(found) => return Opinion { answer: Answer::Refuted, detail: found.to_string() },
            QueryOutcome::Unknown(reason) => unknown = unknown.or(Some(reason)),
        }
    }
    match unknown {
        Some(reason) => Opinion::unknown(reason),
        None => {
            let detail = format!("for all inputs: {places} places in {}", queries_text(queries.len()));
            Opinion { answer: Answer::Proved, detail }
        }
    }
}

/// Checks that both engines decide.
pub(crate) struct Shared {
    /// Of the exact checker.
    pub(crate) exact: &'static [&'static str],
    /// Of the second opinion about all of them together.
    pub(crate) name: &'static str,
}

/// Names of what both engines decide, and of the second opinion about it.
pub(super) const SHARED: [Shared; 3] = [
    Shared { exact: &["no-deadlock"], name: "smt-no-deadlock" },
    Shared { exact: &["no-race"], name: "smt-no-race" },
    Shared { exact: &["completes"], name: "smt-completes" },
];

/// Adds the checks of the second opinion; one that is missing was not asked. If an engine proved what the other refuted,
/// both answers become unknown, and a finding says so: never a verdict.
pub(crate) fn compare(
    shared: [Shared; 3],
    opinions: [Result<Opinion, String>; 3],
    mode: SmtMode,
    checks: &mut Vec<Check>,
    findings: &mut Findings,
) {
    let solver = smt::solver_name();
    for (Shared { exact: exact_names, name }, opinion) in shared.into_iter().zip(opinions) {
        let decides = mode == SmtMode::Required;
        let Opinion { mut answer, detail } = match opinion {
            Ok(opinion) => opinion,
            Err(reason) => {
                let detail = format!("not run: {reason}");
                checks.push(Check { name, answer: Answer::Unknown, decides, detail });
                continue;
            }
        };
        let mut told = format!("{solver}: {detail}");
        let exact_name = exact_names.join(", ");
        let exact_answers: Vec<Answer> =
            checks.iter().filter(|check| exact_names.contains(&check.name)).map(|check| check.answer).collect();
        let exact_answer = if exact_answers.contains(&Answer::Refuted) {
            Answer::Refuted
        } else if exact_answers.len() < exact_names.len() || exact_answers.contains(&Answer::Unknown) {
            Answer::Unknown
        } else {
            Answer::Proved
        };
        let opposite =
            matches!((exact_answer, answer), (Answer::Proved, Answer::Refuted) | (Answer::Refuted, Answer::Proved));
        if opposite {
            let (exact_says, smt_says) =
                if answer == Answer::Refuted { ("proves", "refutes") } else { ("refutes", "proves") };
            let message = format!("the exact checker {exact_says} {exact_name}, but the SMT proof {smt_says} it");
            findings.add(
                Diagnostic::error(crate::opinion::DISAGREE, message)
                    .note(told.clone())
                    .help("this is a fault of Rondo: please report it with the file"),
                Vec::new(),
            );
            for check in checks.iter_mut().filter(|check| exact_names.contains(&check.name)) {
                check.answer = Answer::Unknown;
                check.detail = format!("disagrees with the SMT proof (internal error); said: {}", check.detail);
            }
            answer = Answer::Unknown;
            told = format!("disagrees with the exact checker (internal error); said: {told}");
        } else if answer == Answer::Refuted && exact_answer == Answer::Unknown {
            findings.add(Diagnostic::error(crate::opinion::REFUTED, format!("{exact_name}: {detail}")), Vec::new());
        }
        checks.push(Check { name, answer, decides: decides || opposite, detail: told });
    }
}

/// The finding for a race that the graph algorithm left open.
pub(super) fn race_finding(racing: &Racing) -> (Diagnostic, Vec<(Location, String)>) {
    let Racing { locations: [one, other], place } = racing;
    let diagnostic =
        Diagnostic::error("V117", format!("{one} and {other} touch {place}, in either order, and one of them writes"))
            .note("a counter that several threadblocks signal leaves their order open")
            .help(format!("let one of them wait for the other, or wait for more signals ({one})"));
    (diagnostic, vec![(*one, format!("touches {place}")), (*other, format!("touches {place}"))])
}

/// What a certificate covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCertificate {
    /// Queries; each says in a `:status` what the answer must be.
    pub queries: usize,
    /// What is left out, and why.
    pub left_out: Vec<String>,
}

/// Writes the questions of the second opinion as SMT-LIB 2 text, one `(push 1) … (check-sat) (pop 1)` each, for any other
/// solver to check. Before each `check-sat`, `(set-info :status …)` says what the answer must be. Needs no solver, and works
/// without the feature `smt`.
///
/// # Errors
/// [`CertificateError`]: the writer fails, or the program is not well formed or has too many events.
pub fn program_certificate(
    claim: &Claim,
    program: &Program,
    options: &ProgramOptions,
    out: &mut dyn io::Write,
) -> Result<ProgramCertificate, CertificateError> {
    let mut findings = Findings::new(1);
    if let Err(stop) = form::check(claim, program, options, &mut findings) {
        let first = findings.finish().into_iter().next().map(|finding| finding.diagnostic.message);
        let reason = match stop {
            form::Stop::TooLarge(why) => why,
            form::Stop::Refuted => first.unwrap_or_else(|| "the program is not well formed".to_owned()),
        };
        return Err(CertificateError::Refused { reason });
    }
    let depth = options.fifo_depth.unwrap_or(program.fifo_depth);
    let mut body = Vec::new();
    let certificate = Second::new(claim, program, depth, options.smt_options, Defect::None)
        .map_err(|reason| CertificateError::Refused { reason })?
        .write(&mut body)?;
    let ProgramCertificate { queries, left_out } = &certificate;
    let name: String = program.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    writeln!(out, "; program {name}, as {}, FIFO depth {depth}: {queries} queries", claim.collective)?;
    writeln!(out, "; each check-sat must answer what :status says before it")?;
    writeln!(out, "; no deadlock: eN is the time of event N; a model is a run of all events: sat")?;
    writeln!(out, "; no race: two conflicting accesses happen at once: unsat")?;
    writeln!(
        out,
        "; completes: x_P_S is input slot S of rank P, tN a sum (max, min: an or) of two terms; an output place"
    )?;
    writeln!(out, "; holds something else than it must: unsat")?;
    for reason in left_out {
        writeln!(out, "; left out: {reason}")?;
    }
    writeln!(out, "(set-logic QF_LIA)")?;
    out.write_all(&body)?;
    Ok(certificate)
}

impl Second<'_> {
    /// Writes all queries.
    fn write(&self, out: &mut dyn io::Write) -> io::Result<ProgramCertificate> {
        let mut certificate = ProgramCertificate { queries: 0, left_out: Vec::new() };
        let mut order_query = |out: &mut dyn io::Write, query: &OrderQuery, events: &Events<'_>| -> io::Result<()> {
            let status = if query.expected { "sat" } else { "unsat" };
            writeln!(out, "; query {}: {}", certificate.queries, query.title)?;
            writeln!(out, "(push 1)\n{}(set-info :status {status})\n(check-sat)\n(pop 1)", query.text(events))?;
            certificate.queries += 1;
            Ok(())
        };
        for (query, events) in self.deadlock_queries() {
            order_query(out, &query, events)?;
        }
        let mut races = false;
        match self.race_queries() {
            Err(reason) => certificate.left_out.push(format!("races: {reason}")),
            Ok((queries, _)) => {
                for query in queries.slices.iter().chain(&queries.rest) {
                    order_query(out, query, &self.split)?;
                    races |= query.expected;
                }
            }
        }
        let results = if races || self.run.len() != self.split.list.len() {
            Err("runs differ or do not finish".to_owned())
        } else {
            Symbolic::run(&self.split, &self.run, self.layout, self.defect).and_then(Symbolic::queries)
        };
        match results {
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
