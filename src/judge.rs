//! Proves or refutes a file of any known format.

use std::sync::Arc;

use rondo_backends::msccl_xml::{Broken, Effect, Fate, Service};
use rondo_backends::{json, msccl_xml, mscclpp};
use rondo_compiler::front::job::{build_problem, build_problem_for};
use rondo_ir::collective::{Collective, CollectiveKind, CollectiveSpec, ReduceOperator};
use rondo_ir::diagnostic::{Diagnostic, Label, Severity};
use rondo_ir::problem::Problem;
use rondo_ir::profile::RuntimeProfile;
use rondo_ir::program::Program;
use rondo_ir::schedule::{FlowSet, Schedule};
use rondo_ir::units::Bytes;
use rondo_verify::program::{
    Location, ProgramFinding, ProgramOptions, ProgramOutcome, program_certificate, same_transfers,
    verify_program_located,
};
use rondo_verify::smt::CertificateError;
use rondo_verify::{About, Answer, Check, Claim, Verified};

use crate::pipeline::{Loaded, Proof};
use crate::recognise::{Kind, recognise};

/// What came out for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All deciding checks are proved.
    Verified,
    /// Wrong in every reading, or not loadable by the runtime that was named.
    Refuted,
    /// It cannot be read.
    Unreadable,
    /// A deciding check was not finished.
    Unknown,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Refuted => "refuted",
            Self::Unreadable => "unreadable",
            Self::Unknown => "unknown",
        }
    }
}

/// The judgement of a file.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// What came out.
    pub verdict: Verdict,
    /// Of which format it is; empty if none is known.
    pub format: &'static str,
    /// What it was checked against, in words: its own claim, or the job.
    pub against: Vec<String>,
    /// Checks, each reading's after the other.
    pub checks: Vec<Check>,
    /// Errors and warnings, with places in the file.
    pub findings: Vec<Diagnostic>,
    /// What each runtime makes of the file; empty for formats that no runtime loads.
    pub runtimes: Vec<Service>,
    /// The proof as SMT-LIB 2, one text a reading, if it was asked for and the file is right.
    pub certificates: Vec<String>,
}

impl Judgement {
    /// One without checks and findings so far.
    pub(crate) const fn new(verdict: Verdict, format: &'static str) -> Self {
        Self {
            verdict,
            format,
            against: Vec::new(),
            checks: Vec::new(),
            findings: Vec::new(),
            runtimes: Vec::new(),
            certificates: Vec::new(),
        }
    }

    /// A file that cannot be read.
    #[must_use]
    pub fn unreadable(format: &'static str, findings: Vec<Diagnostic>) -> Self {
        Self { findings, ..Self::new(Verdict::Unreadable, format) }
    }

    fn refuted(format: &'static str, against: Vec<String>, findings: Vec<Diagnostic>) -> Self {
        Self { against, findings, ..Self::new(Verdict::Refuted, format) }
    }
}

/// How a file is judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct JudgeOptions<'a> {
    /// A job that the file must fulfil; otherwise its own claim counts.
    pub against: Option<&'a Loaded>,
    /// A verified plan that the file must be.
    pub against_plan: Option<(&'a str, &'a Verified<Schedule>)>,
    /// A runtime that must be able to load it.
    pub runtime: Option<&'static RuntimeProfile>,
    /// The version of MSCCL++ that must be able to load it.
    pub mscclpp: Option<&'static mscclpp::Profile>,
    /// How hard the SMT proof is tried.
    pub proof: Proof,
    /// Whether the queries of a proof are wanted, for another solver.
    pub certificate: bool,
}

/// Judges a file from its content. `name` is what messages call it.
#[must_use]
pub fn judge_file(name: &str, bytes: &[u8], options: &JudgeOptions<'_>) -> Judgement {
    let kind = recognise(bytes);
    if options.mscclpp.is_some() && matches!(kind, Some(Kind::Plan | Kind::MscclXml)) {
        let finding = Diagnostic::error("X013", "mscclpp reads its own plans (JSON with \"gpus\") only");
        return Judgement::refuted("", Vec::new(), vec![finding]);
    }
    match kind {
        Some(Kind::Plan) => match json::parse(name, bytes) {
            Err(findings) => Judgement::unreadable("rondo plan", findings),
            Ok(json::Plan::Schedule { problem, schedule, claimed }) => {
                let starts = step_starts(&schedule);
                let mut judgement = judge_schedule(problem, schedule, claimed.as_ref(), options);
                let text = String::from_utf8_lossy(bytes);
                for finding in &mut judgement.findings {
                    place_flow(name, &text, &starts, finding);
                }
                judgement
            }
            Ok(json::Plan::Program { claim, program }) => {
                if let Some(profile) = options.runtime {
                    return Judgement::refuted("rondo plan (program)", Vec::new(), vec![not_xml(profile)]);
                }
                let claims = vec![Claim { collective: claim.collective, chunks: claim.chunks }];
                judge_program(name, bytes, "rondo plan (program)", &claims, program, options)
            }
        },
        Some(Kind::MscclXml) => {
            let Ok(text) = std::str::from_utf8(bytes) else {
                let finding = Diagnostic::error("X004", format!("{name} is no UTF-8 text"));
                return Judgement::unreadable("msccl xml", vec![finding]);
            };
            match msccl_xml::parse(name, text) {
                Err(findings) => Judgement::unreadable("msccl xml", findings),
                Ok(parsed) => {
                    let claims = claims_of(&parsed);
                    let unread = parsed.in_place && !claims.iter().any(|claim| claim.collective.in_place());
                    let all = RuntimeProfile::LOADABLE;
                    let runtimes = options.runtime.as_ref().map_or(&all[..], std::slice::from_ref);
                    let examined = msccl_xml::examine(name, &parsed, runtimes);
                    let mut judgement = judge_program(name, bytes, "msccl xml", &claims, parsed.program, options);
                    if unread && options.against.is_none() && options.against_plan.is_none() {
                        judgement.verdict = worse(judgement.verdict, Verdict::Unknown);
                        judgement.checks.push(Check {
                            name: "in-place",
                            answer: Answer::Unknown,
                            decides: true,
                            detail: "the file also claims calls in place, which cannot be decided for this collective"
                                .to_owned(),
                        });
                    }
                    judgement.findings.extend(parsed.warnings);
                    add_runtimes(&mut judgement, examined, options.runtime);
                    judgement
                }
            }
        }
        Some(Kind::Mscclpp) => crate::judge_mscclpp::judge(name, bytes, options),
        Some(Kind::Job) => Judgement::unreadable(
            "job",
            vec![
                Diagnostic::error(
                    "X004",
                    format!("{name} is a job file or other TOML; there is no plan in it to verify"),
                )
                .help("compile it with `rondo compile`, or name it with --against"),
            ],
        ),
        Some(Kind::NcclTopology | Kind::NvidiaSmi) => Judgement::unreadable(
            "topology",
            vec![
                Diagnostic::error("X004", format!("{name} describes a machine; there is no plan in it to verify"))
                    .help("`rondo topology show` prints what is in it"),
            ],
        ),
        None => {
            let what = if bytes.is_empty() { "is empty" } else { "is of no known plan format" };
            let finding = Diagnostic::error("X004", format!("{name} {what}"))
                .help("known: plans of rondo (JSON with \"format\": \"rondo.plan\"), MSCCL XML (<algo …>), and plans of MSCCL++ (JSON with \"gpus\")");
            Judgement::unreadable("", vec![finding])
        }
    }
}

fn judge_schedule(
    problem: Arc<Problem>,
    schedule: Schedule,
    claimed: Option<&json::Claimed>,
    options: &JudgeOptions<'_>,
) -> Judgement {
    const FORMAT: &str = "rondo plan";
    let (problem, against) = match options.against {
        None => {
            let claims: Vec<_> = problem.groups().iter().map(|group| group.collective().to_string()).collect();
            (problem, vec![format!("the file's own claim: {}", claims.join(" and "))])
        }
        Some(loaded) => match same_problem(&problem, loaded) {
            Ok(against) => (problem, vec![against]),
            Err(finding) => {
                return Judgement::refuted(FORMAT, vec![format!("the job {}", loaded.job.file)], vec![*finding]);
            }
        },
    };
    if let Some(profile) = options.runtime {
        return Judgement::refuted(FORMAT, against, vec![not_xml(profile)]);
    }
    if let Some((plan, wanted)) = options.against_plan {
        let same =
            wanted.value() == &schedule && matches!(wanted.about(), About::Problem(wanted) if **wanted == *problem);
        if !same {
            let finding = Diagnostic::error("X011", format!("the plan is not {plan}: its problem or a flow differs"));
            return Judgement::refuted(FORMAT, vec![format!("the plan {plan}")], vec![finding]);
        }
    }
    let outcome = rondo_verify::verify_schedule(Arc::clone(&problem), schedule, &options.proof.options());
    let answer = outcome.answer();
    let mut judgement = Judgement {
        against,
        checks: outcome.checks,
        findings: outcome.findings,
        ..Judgement::new(verdict(answer), FORMAT)
    };
    if let Some(plan) = &outcome.verified
        && let Some(claimed) = claimed
    {
        let price = rondo_verify::price(&problem, plan.value());
        let wrong = match &price {
            Ok(price) => claimed_price(claimed, price),
            Err(error) => Some(format!("the file claims a price, but the schedule has none: {error}")),
        };
        let (answer, detail) = match &wrong {
            None => (Answer::Proved, "recomputed: what the file claims".to_owned()),
            Some(message) => (Answer::Refuted, message.clone()),
        };
        judgement.checks.push(Check { name: "claimed-price", answer, decides: true, detail });
        if let Some(message) = wrong {
            judgement.verdict = Verdict::Refuted;
            judgement.findings.push(
                Diagnostic::error("X010", message).help("compile the job again, or delete \"claimed\" from the plan"),
            );
        }
    }
    if options.certificate
        && let Some(plan) = &outcome.verified
    {
        match schedule_certificate(&problem, plan.value(), &options.proof) {
            Ok(text) => judgement.certificates.push(text),
            Err(finding) => judgement.findings.push(*finding),
        }
    }
    judgement
}

/// The proof that a schedule completes, as SMT-LIB 2.
///
/// # Errors
/// X020 if it is above the limits of the proof.
pub fn schedule_certificate(problem: &Problem, schedule: &Schedule, proof: &Proof) -> Result<String, Box<Diagnostic>> {
    let mut text = Vec::new();
    let written = rondo_verify::smt::certificate(problem, schedule, &proof.options().smt_options, &mut text);
    certificate_text(written, text)
}

/// The proofs about a program, as SMT-LIB 2.
fn certificate_of(claim: &Claim, program: &Program, options: &JudgeOptions<'_>) -> Result<String, Box<Diagnostic>> {
    let mut text = Vec::new();
    let written = program_certificate(claim, program, &options.proof.program_options(), &mut text);
    certificate_text(written, text)
}

pub(crate) fn certificate_text<T>(
    written: Result<T, CertificateError>,
    text: Vec<u8>,
) -> Result<String, Box<Diagnostic>> {
    written.map_err(|error| Box::new(Diagnostic::error("X020", error.to_string())))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// How the claimed price differs from the true one.
fn claimed_price(claimed: &json::Claimed, price: &rondo_verify::Price) -> Option<String> {
    if let Some(time) = &claimed.time
        && *time != price.total
    {
        return Some(format!("the file claims a time of {time}, but it is {}", price.total));
    }
    if claimed.steps.is_empty() {
        return None;
    }
    if claimed.steps.len() != price.steps.len() {
        return Some(format!(
            "the file claims the times of {} steps, but there are {}",
            claimed.steps.len(),
            price.steps.len()
        ));
    }
    claimed.steps.iter().zip(&price.steps).enumerate().find_map(|(step, (claimed, price))| {
        (*claimed != price.total())
            .then(|| format!("the file claims {claimed} for step s{step}, but it is {}", price.total()))
    })
}

/// The problem of a plan must be the job's, at the plan's size where the job gives a range.
fn same_problem(problem: &Problem, loaded: &Loaded) -> Result<String, Box<Diagnostic>> {
    let job = &loaded.job;
    let size = problem.groups().first().map_or(Bytes(0), |group| group.collective().buffer_size());
    let broken = |findings: Vec<Diagnostic>| {
        let reason = findings.into_iter().next().map_or_else(String::new, |d| d.message);
        Box::new(Diagnostic::error("X011", format!("the job {} has no problem to compare with: {reason}", job.file)))
    };
    let wanted = build_problem(job, &loaded.fabric).map_err(broken)?;
    let ranks = u32::try_from(wanted.rank_count()).unwrap_or(u32::MAX);
    let wanted = match job.sizes(ranks) {
        rondo_compiler::front::job::SizeRequest::One(_) => wanted,
        rondo_compiler::front::job::SizeRequest::Range { low, high } if (low..=high).contains(&size) => {
            build_problem_for(job, &loaded.fabric, size).map_err(broken)?
        }
        rondo_compiler::front::job::SizeRequest::Range { low, high } => {
            let message = format!("the plan is for {size}; the job asks for {low} to {high}");
            return Err(Box::new(Diagnostic::error("X011", message)));
        }
    };
    let differs = |what: &str, given: String, needed: String| {
        Err(Box::new(
            Diagnostic::error("X011", format!("the plan's {what} is not the job's"))
                .note(format!("plan: {given}"))
                .note(format!("job {}: {needed}", job.file)),
        ))
    };
    let groups = |p: &Problem| {
        p.groups().iter().map(|g| format!("{} over {:?}", g.collective(), g.ranks())).collect::<Vec<_>>().join("; ")
    };
    if problem.groups() != wanted.groups() {
        return differs("collective", groups(problem), groups(&wanted));
    }
    if problem.topology() != wanted.topology() {
        let name = |p: &Problem| {
            let t = p.topology();
            format!(
                "{} ({} nodes, {} links, {} devices)",
                t.name(),
                t.nodes().len(),
                t.links().len(),
                t.devices().len()
            )
        };
        let (given, needed) = (problem.topology(), wanted.topology());
        let link = given.links().iter().zip(needed.links()).position(|(a, b)| a != b);
        let mut detail = (name(problem), name(&wanted));
        if let Some(link) = link.map(rondo_ir::index::LinkId::new) {
            let text = |t: &rondo_ir::topology::Topology| {
                let l = t.link(link);
                format!("{} at {}, {}{}", t.link_name(link), l.capacity, l.latency, if l.up { "" } else { ", down" })
            };
            detail = (format!("{}; link {}", detail.0, text(given)), format!("{}; link {}", detail.1, text(needed)));
        }
        return differs("topology", detail.0, detail.1);
    }
    if problem.placement() != wanted.placement() {
        return differs("placement", format!("{:?}", problem.placement()), format!("{:?}", wanted.placement()));
    }
    if problem.cost() != wanted.cost() {
        return differs("cost model", format!("{:?}", problem.cost()), format!("{:?}", wanted.cost()));
    }
    if *problem != wanted {
        return differs("initial circuits", format!("{:?}", problem.circuits()), format!("{:?}", wanted.circuits()));
    }
    let collectives: Vec<_> = wanted.groups().iter().map(|group| group.collective().to_string()).collect();
    Ok(format!("the job {}: {}", job.file, collectives.join(" and ")))
}

/// A program, once for each reading that the file claims.
fn judge_program(
    name: &str,
    bytes: &[u8],
    format: &'static str,
    claims: &[Claim],
    program: Program,
    options: &JudgeOptions<'_>,
) -> Judgement {
    // A file without a claim has nothing that could be verified.
    let mut judgement = Judgement::new(if claims.is_empty() { Verdict::Unknown } else { Verdict::Verified }, format);
    // A job asks for one kind of calls; a file that also serves the other is judged for that one.
    let asked = options.against.map(|loaded| loaded.job.collective.in_place);
    let asked = asked.or_else(|| match options.against_plan.map(|(_, plan)| plan.about()) {
        Some(About::Problem(problem)) => problem.groups().first().map(|group| group.collective().in_place()),
        _ => None,
    });
    let fits = |claim: &&Claim| asked.is_none_or(|in_place| claim.collective.in_place() == in_place);
    let readings: Vec<&Claim> = if claims.iter().any(|claim| fits(&claim)) {
        claims.iter().filter(fits).collect()
    } else {
        claims.iter().collect()
    };
    let mut wanted = Vec::with_capacity(readings.len());
    for claim in readings {
        match options.against.map(|loaded| (loaded, claim_of_job(claim, loaded))) {
            None => {
                judgement.against.push(format!("the file's own claim: {}", in_words(&claim.collective)));
                wanted.push(with_operator_of_plan(claim, options));
            }
            Some((loaded, Ok(claim))) => {
                judgement.against.push(format!("the job {}: {}", loaded.job.file, in_words(&claim.collective)));
                wanted.push(claim);
            }
            Some((_, Err(finding))) => {
                judgement.verdict = Verdict::Refuted;
                judgement.findings.push(*finding);
            }
        }
    }
    let starts = LineStarts::new(bytes);
    for located in verify_readings(wanted, program, &options.proof.program_options()) {
        judgement.verdict = worse(judgement.verdict, verdict(located.outcome.answer()));
        judgement.checks.extend(located.outcome.checks);
        if let Some(verified) = located.outcome.verified.as_ref().filter(|_| options.certificate)
            && let About::Claim(claim) = verified.about()
        {
            match certificate_of(claim, verified.value(), options) {
                Ok(text) => judgement.certificates.push(text),
                Err(finding) => judgement.findings.push(*finding),
            }
        }
        if let (Some((plan, wanted)), Some(program)) = (options.against_plan, &located.outcome.verified) {
            judgement.against.push(format!("the plan {plan}"));
            let (answer, detail) = match same_transfers(wanted, program) {
                Ok(report) => {
                    (Answer::Proved, format!("the same {} transfers and {} results", report.transfers, report.outputs))
                }
                Err(findings) => {
                    judgement.verdict = Verdict::Refuted;
                    judgement.findings.extend(findings);
                    (Answer::Refuted, "another schedule".to_owned())
                }
            };
            judgement.checks.push(Check { name: "same-schedule", answer, decides: true, detail });
        }
        for found in located.findings {
            let finding = starts.placed(name, found);
            if !judgement.findings.contains(&finding) {
                judgement.findings.push(finding);
            }
        }
    }
    judgement.against.push("links and sizes not checked: a program names no links".to_owned());
    judgement
}

/// What a file claims to be: once for each kind of call that may use it.
pub(crate) fn claims_of(parsed: &msccl_xml::Parsed) -> Vec<Claim> {
    let claim = |header: &msccl_xml::Header| Claim { collective: header.collective.clone(), chunks: header.chunks };
    parsed.headers.iter().map(claim).collect()
}

/// Verifies a program once for each claim, one after the other.
pub(crate) fn verify_readings(
    claims: Vec<Claim>,
    program: Program,
    options: &ProgramOptions,
) -> impl Iterator<Item = ProgramOutcome> {
    let last = claims.len().saturating_sub(1);
    let mut program = Some(program);
    claims.into_iter().enumerate().filter_map(move |(index, claim)| {
        // A program may be large: the last reading takes it.
        let program = if index == last { program.take() } else { program.clone() };
        Some(verify_program_located(claim, program?, options))
    })
}

/// No runtime reads Rondo's own format.
fn not_xml(profile: &RuntimeProfile) -> Diagnostic {
    Diagnostic::error("X013", format!("a plan of rondo is loaded by no runtime; {} reads MSCCL XML", profile.name))
        .help(format!("rondo export PLAN --to msccl-xml:{} -o FILE.xml", profile.name))
}

/// Adds what the runtimes make of the file: all of them, or the one that was named.
fn add_runtimes(
    judgement: &mut Judgement,
    (mut broken, services): (Vec<Broken>, Vec<Service>),
    runtime: Option<&'static RuntimeProfile>,
) {
    if runtime.is_some_and(|profile| !profile.loadable) {
        judgement.verdict = Verdict::Refuted;
        judgement
            .findings
            .push(Diagnostic::error("X013", "no runtime loads files without limits").help("name msccl, azure or rccl"));
    }
    let fates: Vec<Fate> = services.iter().map(|service| service.fate).collect();
    let decided = if runtime.is_some() {
        fates.iter().any(|&fate| fate != Fate::Used)
    } else {
        fates.contains(&Fate::Wrong) && !fates.contains(&Fate::Used)
    };
    if decided {
        judgement.verdict = worse(judgement.verdict, Verdict::Refuted);
        for rule in &mut broken {
            let deciding = match rule.effect {
                Effect::Unreadable | Effect::Wrong | Effect::NotLoaded => true,
                Effect::NotSelected => fates.contains(&Fate::NeverUsed),
                Effect::Warning | Effect::Note => false,
            };
            if runtime.is_some() && deciding {
                rule.diagnostic.severity = Severity::Error;
            }
        }
    } else {
        // Some runtime uses the file and it is right there.
        for rule in &mut broken {
            rule.diagnostic.severity = rule.diagnostic.severity.min(Severity::Warning);
        }
    }
    judgement.findings.extend(broken.into_iter().map(|rule| rule.diagnostic));
    judgement.runtimes = services;
}

/// A file names no operator; where it is compared with a plan, the plan's is the one that is asked for.
fn with_operator_of_plan(claim: &Claim, options: &JudgeOptions<'_>) -> Claim {
    let Some(About::Problem(problem)) = options.against_plan.map(|(_, plan)| plan.about()) else {
        return claim.clone();
    };
    let operator = problem.groups().first().map(|group| group.collective().operator());
    with_operator(claim, operator.unwrap_or(claim.collective.operator()))
}

/// The same claim for another operator. Its sizes stay the file's own, under which every slot has elements.
pub(crate) fn with_operator(claim: &Claim, operator: ReduceOperator) -> Claim {
    let spec = CollectiveSpec { operator, ..claim.collective.to_spec() };
    Collective::new(spec).map_or_else(|_| claim.clone(), |collective| Claim { collective, chunks: claim.chunks })
}

/// A claim without sizes, which a program does not have.
pub(crate) fn in_words(collective: &Collective) -> String {
    let operator = if collective.kind().reduces() { format!(" {}", collective.operator()) } else { String::new() };
    let root = collective.kind().root().map_or_else(String::new, |root| format!(" root {root}"));
    let place = if collective.in_place() { "in place" } else { "out of place" };
    format!("{}{operator}{root}, {} ranks, {place}", collective.kind().name(), collective.ranks())
}

/// What the job asks of a program, at the program's chunks.
pub(crate) fn claim_of_job(claim: &Claim, loaded: &Loaded) -> Result<Claim, Box<Diagnostic>> {
    let job = &loaded.job;
    let wanted = build_problem(job, &loaded.fabric).map_err(|findings| {
        let reason = findings.into_iter().next().map_or_else(String::new, |d| d.message);
        Box::new(Diagnostic::error("X011", format!("the job {} has no problem to compare with: {reason}", job.file)))
    })?;
    let Some(group) = wanted.groups().first() else {
        return Err(Box::new(Diagnostic::error("X011", format!("the job {} has no collective", job.file))));
    };
    let collective = group.collective();
    if collective.operator() == ReduceOperator::Avg && collective.kind().reduces() {
        return Err(Box::new(Diagnostic::error("X011", "no runtime uses such a file for avg; the job asks for it")));
    }
    let same_kind = match (claim.collective.kind(), collective.kind()) {
        (CollectiveKind::AllToAll { .. }, CollectiveKind::AllToAll { .. }) => true,
        (a, b) => a == b,
    };
    if !same_kind
        || claim.collective.ranks() != collective.ranks()
        || claim.collective.in_place() != collective.in_place()
    {
        return Err(Box::new(
            Diagnostic::error("X011", "the file's collective is not the job's")
                .note(format!("file: {}", in_words(&claim.collective)))
                .note(format!("job {}: {}", job.file, in_words(collective))),
        ));
    }
    Ok(with_operator(claim, collective.operator()))
}

pub(crate) const fn verdict(answer: Answer) -> Verdict {
    match answer {
        Answer::Proved => Verdict::Verified,
        Answer::Refuted => Verdict::Refuted,
        Answer::Unknown => Verdict::Unknown,
    }
}

/// The worse of two readings of one file.
pub(crate) const fn worse(a: Verdict, b: Verdict) -> Verdict {
    match (a, b) {
        (Verdict::Refuted, _) | (_, Verdict::Refuted) => Verdict::Refuted,
        (Verdict::Unreadable, _) | (_, Verdict::Unreadable) => Verdict::Unreadable,
        (Verdict::Unknown, _) | (_, Verdict::Unknown) => Verdict::Unknown,
        (Verdict::Verified, Verdict::Verified) => Verdict::Verified,
    }
}

/// Where the lines of a file begin.
pub(crate) struct LineStarts(Vec<usize>, usize);

impl LineStarts {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let starts =
            std::iter::once(0).chain(bytes.iter().enumerate().filter(|&(_, &b)| b == b'\n').map(|(at, _)| at + 1));
        Self(starts.collect(), bytes.len())
    }

    /// A finding with the places of its instructions in the file.
    pub(crate) fn placed(&self, file: &str, found: ProgramFinding) -> Diagnostic {
        let mut finding = found.diagnostic;
        finding.labels.extend(found.locations.iter().filter_map(|(location, text)| self.label(file, location, text)));
        finding
    }

    /// From a line and column to the end of the line.
    fn label(&self, file: &str, location: &Location, text: &str) -> Option<Label> {
        let line = (location.span.line as usize).checked_sub(1)?;
        let start = *self.0.get(line)? + (location.span.column as usize).saturating_sub(1);
        let end = self.0.get(line + 1).map_or(self.1, |next| next - 1);
        Some(Label { file: file.to_owned(), start: start.min(end), end, text: text.to_owned() })
    }
}

/// Number of the first flow of each step, up to the first step of orbits: counting those could take forever.
fn step_starts(schedule: &Schedule) -> Vec<usize> {
    let mut next = 0;
    let mut starts = Vec::with_capacity(schedule.steps.len());
    for step in &schedule.steps {
        starts.push(next);
        match &step.flows {
            FlowSet::Rows(rows) => next += rows.len(),
            FlowSet::Orbits { .. } => break,
        }
    }
    starts
}

/// Gives a finding about a flow (`s2 f41: …`) its place in the plan file.
fn place_flow(name: &str, text: &str, starts: &[usize], finding: &mut Diagnostic) {
    if !finding.labels.is_empty() {
        return;
    }
    let named = flow_named(&finding.message)
        .or_else(|| {
            finding.notes.iter().find(|note| note.starts_with("the flow is ")).and_then(|note| flow_named(note))
        })
        .map(|flow| (flow, "this flow"));
    // Where a value is wrong, the notes list the flows that made it, in order.
    let made = || {
        finding.notes.iter().rev().find_map(|note| flow_named(note)).map(|flow| (flow, "the last flow that made it"))
    };
    let Some(((step, flow), what)) = named.or_else(made) else { return };
    let range = starts.get(step).and_then(|&first| json::flow_span(text, step, flow.checked_sub(first)?));
    if let Some(range) = range {
        finding.labels.push(Label { file: name.to_owned(), start: range.start, end: range.end, text: what.to_owned() });
    }
}

/// Step and flow number of the first `s2 f41` in a text.
fn flow_named(text: &str) -> Option<(usize, usize)> {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c == ':' || c == ',').collect();
    let number = |word: &str, letter: char| word.strip_prefix(letter)?.parse::<usize>().ok();
    words.windows(2).find_map(|pair| Some((number(pair[0], 's')?, number(pair[1], 'f')?)))
}
