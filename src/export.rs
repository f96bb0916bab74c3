//! From a verified schedule to a file that was parsed again, verified from itself alone, and shown to be this schedule.

use std::collections::{BTreeMap, VecDeque};
use std::str::FromStr;
use std::sync::Arc;

use rondo_backends::{json, msccl_xml};
use rondo_compiler::lower::{LowerOptions, lower};
use rondo_compiler::pass::refine;
use rondo_ir::collective::Collective;
use rondo_ir::diagnostic::{Diagnostic, Severity};
use rondo_ir::index::NodeId;
use rondo_ir::problem::Problem;
use rondo_ir::profile::{Protocol, RuntimeProfile};
use rondo_ir::program::Program;
use rondo_ir::schedule::Schedule;
use rondo_ir::text;
use rondo_verify::program::{ProgramOptions, ProgramOutcome, same_transfers};
use rondo_verify::{About, Answer, Claim, Verified};

use crate::judge::{claims_of, verify_readings, with_operator};
use crate::pipeline::{Failure, Proof, judge};

/// A file format, with the runtime that is to load the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Rondo's own plan format.
    Json,
    /// MSCCL XML for this runtime.
    MscclXml(&'static RuntimeProfile),
}

/// All names of formats, for help and messages.
pub const FORMATS: &str = "json, msccl-xml:msccl, msccl-xml:azure, msccl-xml:rccl, msccl-xml:unlimited";

impl FromStr for Format {
    type Err = Diagnostic;

    fn from_str(text: &str) -> Result<Self, Diagnostic> {
        let found = match text.split_once(':') {
            None if text == "json" => Some(Self::Json),
            None if text == "msccl-xml" => Some(Self::MscclXml(&RuntimeProfile::MSCCL)),
            Some(("msccl-xml", runtime)) => RuntimeProfile::named(runtime).map(Self::MscclXml),
            _ => None,
        };
        found.ok_or_else(|| {
            Diagnostic::error("X005", format!("unknown format `{text}`")).help(format!("allowed: {FORMATS}"))
        })
    }
}

/// What to write.
#[derive(Clone, Debug)]
pub struct ExportRequest {
    /// Format and runtime.
    pub format: Format,
    /// Protocol that moves the data (MSCCL XML).
    pub protocol: Protocol,
    /// Channels over which each transfer is cut; 0: as few as the limits allow.
    pub channels: u32,
    /// Copies side by side, each on a share of the data; at least 1.
    pub instances: u32,
    /// Smallest and largest size of calls that the file serves, both included; `None`: up to the size of the
    /// plan.
    pub sizes: Option<(u64, u64)>,
    /// Whether the file serves calls in and out of place; `None`: as the schedule's collective.
    pub in_and_out_of_place: Option<(bool, bool)>,
    /// Name in the file; `None`: the algorithm's.
    pub name: Option<String>,
    /// Refuse a format that cannot carry the routes.
    pub strict_routes: bool,
}

impl ExportRequest {
    /// The format with protocol Simple and everything else by default.
    #[must_use]
    pub const fn new(format: Format) -> Self {
        Self {
            format,
            protocol: Protocol::Simple,
            channels: 0,
            instances: 1,
            sizes: None,
            in_and_out_of_place: None,
            name: None,
            strict_routes: false,
        }
    }
}

/// A file that was verified after it was written.
#[derive(Debug)]
pub struct Exported {
    /// Its content.
    pub text: String,
    /// What a person should know: routes that the runtime may choose otherwise, limits that are near.
    pub warnings: Vec<Diagnostic>,
    /// One line on what was checked.
    pub checked: String,
}

/// Whether findings of an export say that what was written is wrong, rather than that it cannot be written.
#[must_use]
pub fn is_refutation(findings: &[Diagnostic]) -> bool {
    findings.iter().any(|finding| finding.code.starts_with('V') && finding.severity == Severity::Error)
}

/// Writes a verified schedule, parses what was written, verifies it from the text alone, and shows that its transfers are those of
/// the schedule.
///
/// # Errors
/// What the format or the runtime cannot hold, with the number given and the limit; or what the check of the written file found, which
/// would be a fault of Rondo.
pub fn export(plan: &Verified<Schedule>, request: &ExportRequest) -> Result<Exported, Vec<Diagnostic>> {
    let About::Problem(problem) = plan.about() else {
        return Err(vec![Diagnostic::error("X007", "a schedule without its problem cannot be written")]);
    };
    match request.format {
        Format::Json => export_json(problem, plan.value()),
        Format::MscclXml(profile) if request.instances <= 1 => export_xml(problem, plan, profile, request),
        Format::MscclXml(profile) => {
            let refined = refine(plan.value(), request.instances).map_err(|error| vec![error.diagnostic()])?;
            let proof = Proof { smt: false, ..Proof::default() };
            let (plan, _, _) = judge(problem, refined, &proof).map_err(|failure| match failure {
                Failure::Input(findings) | Failure::Refuted { findings, .. } | Failure::Undecided { findings, .. } => {
                    findings
                }
            })?;
            export_xml(problem, &plan, profile, request)
        }
    }
}

fn export_json(problem: &Arc<Problem>, schedule: &Schedule) -> Result<Exported, Vec<Diagnostic>> {
    let claimed = rondo_verify::price(problem, schedule)
        .ok()
        .map(|price| json::Claimed { time: Some(price.total), ..json::Claimed::default() });
    let plan = json::PlanRef::Schedule { problem, schedule, claimed: claimed.as_ref() };
    let text = json::to_text(plan).map_err(|error| vec![Diagnostic::error("X007", error.to_string())])?;
    match json::parse("the written plan", text.as_bytes())? {
        json::Plan::Schedule { problem: read_problem, schedule: read, .. }
            if *read_problem == **problem && read == *schedule => {}
        _ => {
            return Err(vec![Diagnostic::error(
                "X007",
                "the written plan does not read back as the schedule that was verified",
            )]);
        }
    }
    Ok(Exported { text, warnings: Vec::new(), checked: "read back: the same problem and schedule".to_owned() })
}

fn export_xml(
    problem: &Problem,
    plan: &Verified<Schedule>,
    profile: &'static RuntimeProfile,
    request: &ExportRequest,
) -> Result<Exported, Vec<Diagnostic>> {
    let mut warnings = route_warnings(problem, plan.value(), request.strict_routes)?;
    let written = write_xml(problem, plan.value(), profile, request)?;
    warnings.extend(written.warnings);
    if !profile.loadable {
        warnings.push(
            Diagnostic::warning("X016", "no runtime loads this file: it was written without limits")
                .help("write it for msccl, azure or rccl to run it"),
        );
    }
    let checked = check_written(plan, &written.collective, &written.text)?;
    Ok(Exported { text: written.text, warnings, checked })
}

/// A file that was written but not checked yet.
struct Written {
    text: String,
    warnings: Vec<Diagnostic>,
    collective: Collective,
}

/// Lowers and emits.
fn write_xml(
    problem: &Problem,
    schedule: &Schedule,
    profile: &'static RuntimeProfile,
    request: &ExportRequest,
) -> Result<Written, Vec<Diagnostic>> {
    let group =
        problem.groups().first().ok_or_else(|| vec![Diagnostic::error("X007", "the problem has no collective")])?;
    let collective = group.collective();
    let (in_place, out_of_place) =
        request.in_and_out_of_place.unwrap_or((collective.in_place(), !collective.in_place()));
    if out_of_place && collective.in_place() {
        return Err(vec![
            Diagnostic::error("X015", "the plan is in place, so it cannot serve calls out of place")
                .note("out of place the result must not be where the input is")
                .help("write in_place = false in [collective]: such a plan may serve calls in place too, and is checked for both"),
        ]);
    }
    let options =
        LowerOptions { profile, protocol: request.protocol, channels: request.channels.max(request.instances) };
    let lowered = lower(problem, schedule, &options).map_err(|error| vec![error.diagnostic()])?;
    let mut warnings = lowered.report.warnings;
    // Without a range the file serves everything up to the size that it was compiled for.
    let (low, high) = request.sizes.unwrap_or((0, collective.buffer_size().0));
    let emit = msccl_xml::Options {
        profile,
        protocol: request.protocol,
        min_bytes: low,
        max_bytes: Some(high),
        name: request.name.clone().unwrap_or_else(|| schedule.algorithm.clone()),
        in_place,
        out_of_place,
    };
    let emitted = msccl_xml::emit(collective, &lowered.program, &emit).map_err(|error| vec![error.diagnostic()])?;
    warnings.extend(emitted.warnings);
    Ok(Written { text: emitted.text, warnings, collective: collective.clone() })
}

/// Whether a schedule can be written for the request's runtime: its limits hold, and the file is right for every kind of call that
/// it serves.
///
/// # Errors
/// Why it cannot.
pub fn can_export(problem: &Problem, schedule: &Schedule, request: &ExportRequest) -> Result<(), Diagnostic> {
    let Format::MscclXml(profile) = request.format else { return Ok(()) };
    let refined;
    let schedule = if 1 < request.instances {
        refined = refine(schedule, request.instances).map_err(|error| error.diagnostic())?;
        &refined
    } else {
        schedule
    };
    let written = write_xml(problem, schedule, profile, request).map_err(first_of)?;
    verify_text(&written.collective, &written.text, |_, _| Ok(())).map_err(first_of)
}

/// The first of several findings.
fn first_of(findings: Vec<Diagnostic>) -> Diagnostic {
    findings.into_iter().next().unwrap_or_else(|| Diagnostic::error("X007", "no reason given"))
}

/// Parses a written file, verifies it from the text alone, and compares its transfers with the schedule's.
///
/// # Errors
/// What is wrong with the file.
pub fn check_written(
    plan: &Verified<Schedule>,
    collective: &Collective,
    text: &str,
) -> Result<String, Vec<Diagnostic>> {
    let mut checked = Vec::new();
    verify_text(collective, text, |place, program| {
        let report = same_transfers(plan, program)?;
        let (transfers, outputs) = (report.transfers, report.outputs);
        checked.push(format!(
            "{place}: verified from the file alone; the same {transfers} transfers and {outputs} results as the schedule"
        ));
        Ok(())
    })?;
    Ok(checked.join("; "))
}

/// Parses a written file, verifies it from the text alone for each kind of call that it serves, and hands on each proof.
fn verify_text(
    collective: &Collective,
    text: &str,
    mut then: impl FnMut(&str, &Verified<Program>) -> Result<(), Vec<Diagnostic>>,
) -> Result<(), Vec<Diagnostic>> {
    let parsed = msccl_xml::parse("the written file", text)?;
    // A file names no operator; the plan's is the one that is asked for.
    let claims: Vec<Claim> =
        claims_of(&parsed).iter().map(|claim| with_operator(claim, collective.operator())).collect();
    let facts = |collective: &Collective| (collective.kind().clone(), collective.ranks(), collective.operator());
    if let Some(other) = claims.iter().find(|claim| facts(&claim.collective) != facts(collective)) {
        let message = format!("the written file claims {}, not {collective}", other.collective);
        return Err(vec![Diagnostic::error("X007", message)]);
    }
    if claims.is_empty() {
        let message = "the written file serves no call, neither in place nor out of place";
        return Err(vec![Diagnostic::error("X007", message)]);
    }
    let places: Vec<bool> = claims.iter().map(|claim| claim.collective.in_place()).collect();
    let options = ProgramOptions::default();
    let outcomes = verify_readings(claims, parsed.program, &options);
    for (in_place, ProgramOutcome { outcome, .. }) in places.into_iter().zip(outcomes) {
        let place = if in_place { "in place" } else { "out of place" };
        let answer = outcome.answer();
        let Some(program) = outcome.verified else {
            let what = if answer == Answer::Refuted { "is wrong" } else { "could not be decided" };
            let mut first =
                Diagnostic::error("X007", format!("the file that this plan would give {what} for calls {place}"));
            if collective.in_place() != in_place {
                first = first.help("name another algorithm, or let the file serve one kind of call only");
            }
            let mut findings = outcome.findings;
            findings.insert(0, first);
            return Err(findings);
        };
        then(place, &program)?;
    }
    Ok(())
}

/// Says which routes the runtime may choose otherwise, because the format has none.
fn route_warnings(problem: &Problem, schedule: &Schedule, strict: bool) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let ambiguous = ambiguous_routes(problem, schedule);
    let Some(first) = ambiguous.first() else { return Ok(Vec::new()) };
    let message = format!(
        "{} of the routes in this plan are one of several ways; the format does not name routes, so the runtime may choose others",
        ambiguous.len()
    );
    let mut diagnostic = Diagnostic::warning("X008", message)
        .note(format!("first: {first}"))
        .note("the price holds for the routes of the plan; the result does not depend on them");
    if strict {
        diagnostic.severity = Severity::Error;
        return Err(vec![diagnostic.help("export to json, which carries routes, or leave out --strict-routes")]);
    }
    Ok(vec![diagnostic.help("--strict-routes refuses such an export")])
}

/// Routes that are split, longer than they need be, or one of several with the fewest hops; in words, in route order.
fn ambiguous_routes(problem: &Problem, schedule: &Schedule) -> Vec<String> {
    let topology = problem.topology();
    let mut counted: BTreeMap<NodeId, Vec<(u32, u32)>> = BTreeMap::new();
    let mut found = Vec::new();
    for route in schedule.paths.routes() {
        let Some(part) = route.parts.first() else { continue };
        let (Some(&first), Some(&last)) = (part.hops.first(), part.hops.last()) else { continue };
        let (src, dst) = (topology.ends(first).0, topology.ends(last).1);
        let ways = counted.entry(src).or_insert_with(|| shortest_ways(problem, src));
        let (hops, count) = ways[dst.index()];
        let only = route.parts.len() == 1 && count == 1 && part.hops.len() == hops as usize;
        if !only {
            found.push(text::hops_line(problem, &part.hops));
        }
    }
    found
}

/// Hops to each node and the number of shortest ways there (parallel links are one way), over forwarding nodes and links that
/// are up; saturating.
fn shortest_ways(problem: &Problem, src: NodeId) -> Vec<(u32, u32)> {
    let topology = problem.topology();
    let mut ways = vec![(u32::MAX, 0_u32); topology.nodes().len()];
    ways[src.index()] = (0, 1);
    let mut queue = VecDeque::from([src]);
    while let Some(node) = queue.pop_front() {
        if node != src && !topology.node(node).forwards {
            continue;
        }
        let (hops, count) = ways[node.index()];
        let mut next: Vec<NodeId> =
            topology.links_from(node).iter().map(|&l| topology.link(l)).filter(|l| l.up).map(|l| l.dst).collect();
        next.sort_unstable();
        next.dedup();
        for neighbour in next {
            let entry = &mut ways[neighbour.index()];
            if entry.0 == u32::MAX {
                *entry = (hops + 1, count);
                queue.push_back(neighbour);
            } else if entry.0 == hops + 1 {
                entry.1 = entry.1.saturating_add(count);
            }
        }
    }
    ways
}
