//! The road from a job file to a verified schedule.

use std::path::Path;
use std::sync::Arc;

use rondo_compiler::auto::{self, Algorithm, CandidateReport, Limits, Watch};
use rondo_compiler::build::BuildContext;
use rondo_compiler::cost::{Cost, evaluate};
use rondo_compiler::fabric::Fabric;
use rondo_compiler::front::job::{self, Job};
use rondo_compiler::pass::circuits::CircuitOptions;
use rondo_compiler::topology::{self, Built, spec::TopologySpec};
use rondo_ir::collective::{Collective, CollectiveKind};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;
use rondo_verify::bound::{Bound, bound_at};
use rondo_verify::program::{ProgramOptions, ProgramSmtOptions};
use rondo_verify::{Answer, Check, Options, Outcome, Price, SmtMode, Verified, smt::SmtOptions};

/// A job file with its topology built.
#[derive(Debug)]
pub struct Loaded {
    /// What the file says.
    pub job: Job,
    /// The topology, its shape and its routing.
    pub fabric: Fabric,
    /// What a person should know: what an imported file lacks, for example.
    pub warnings: Vec<Diagnostic>,
    /// Where rates come from that the job does not give.
    pub sources: Vec<String>,
}

/// Reads a job and builds its topology. `name` is what messages call the file; paths in it are relative to `folder`.
///
/// # Errors
/// Everything that is wrong with the file, or with the files that it names.
pub fn load_job(name: &str, bytes: &[u8], folder: &Path) -> Result<Loaded, Vec<Diagnostic>> {
    let job = job::parse_job_bytes(name, bytes)?;
    let Built { fabric, warnings, sources } = build_topology(&job.topology, folder)?;
    Ok(Loaded { job, fabric, warnings, sources })
}

/// The same for a file of which only the topology is wanted; it need not have a collective.
///
/// # Errors
/// As [`load_job`].
pub fn load_topology(name: &str, bytes: &[u8], folder: &Path) -> Result<Built, Vec<Diagnostic>> {
    build_topology(&job::parse_topology_bytes(name, bytes)?, folder)
}

fn build_topology(topology: &TopologySpec, folder: &Path) -> Result<Built, Vec<Diagnostic>> {
    topology::build(topology, &|path: &str| read_text(&folder.join(path)))
}

/// Largest file that a job may name.
const LARGEST_FILE: u64 = 64 << 20;

/// Reads a regular file of reasonable size.
fn read_text(path: &Path) -> std::io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    let refuse = |why: &str| Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why.to_owned()));
    if !metadata.is_file() {
        return refuse("it is no regular file");
    }
    if LARGEST_FILE < metadata.len() {
        return refuse("it is larger than 64 MiB");
    }
    std::fs::read_to_string(path)
}

/// How hard the independent SMT proof is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Whether it is tried at all.
    pub smt: bool,
    /// Whether a schedule without a complete SMT proof counts as undecided.
    pub require_smt: bool,
    /// Most ranks for which it covers every chunk.
    pub smt_ranks: usize,
    /// Z3's resource limit for each query; 0 means none.
    pub smt_budget: u32,
    /// Most events of a program, unrolled, that it covers.
    pub smt_events: usize,
}

impl Default for Proof {
    fn default() -> Self {
        let SmtOptions { max_ranks, rlimit, .. } = SmtOptions::default();
        let ProgramSmtOptions { max_events, .. } = ProgramSmtOptions::default();
        Self { smt: true, require_smt: false, smt_ranks: max_ranks, smt_budget: rlimit, smt_events: max_events }
    }
}

impl Proof {
    /// What the job asks for.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        Self {
            smt: true,
            require_smt: job.compile.require_smt,
            smt_ranks: usize::try_from(job.compile.smt_ranks).unwrap_or(usize::MAX),
            smt_budget: u32::try_from(job.compile.smt_budget).unwrap_or(u32::MAX),
            ..Self::default()
        }
    }

    /// As the verifier's options.
    #[must_use]
    pub fn options(&self) -> Options {
        Options {
            smt: self.mode(),
            smt_options: SmtOptions { max_ranks: self.smt_ranks, rlimit: self.smt_budget, ..SmtOptions::default() },
            ..Options::default()
        }
    }

    /// As the verifier's options for programs.
    #[must_use]
    pub fn program_options(&self) -> ProgramOptions {
        let defaults = ProgramSmtOptions::default();
        // Conflicts grow with events.
        let max_conflicts = defaults.max_conflicts.max(self.smt_events.saturating_mul(2));
        let smt_options = ProgramSmtOptions { max_events: self.smt_events, max_conflicts, ..defaults };
        ProgramOptions { smt: self.mode(), smt_options, ..ProgramOptions::default() }
    }

    const fn mode(&self) -> SmtMode {
        match (self.require_smt, self.smt) {
            (true, _) => SmtMode::Required,
            (false, true) => SmtMode::Auto,
            (false, false) => SmtMode::Off,
        }
    }
}

/// Which schedule is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `auto` or the name of an algorithm.
    pub algorithm: String,
    /// Pieces into which each block is cut; `None`: chosen.
    pub chunks: Option<u32>,
    /// How the circuits of optical switches are changed between steps.
    pub circuits: CircuitOptions,
}

impl Request {
    /// The cheapest of all that fit.
    #[must_use]
    pub fn auto() -> Self {
        Self { algorithm: "auto".to_owned(), chunks: None, circuits: CircuitOptions::default() }
    }

    /// What the job asks for.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        let algorithm = match &job.compile.algorithm {
            job::Algorithm::Named(name) => name.value.clone(),
            job::Algorithm::Auto => "auto".to_owned(),
        };
        Self { algorithm, chunks: job.compile.chunks, circuits: job.compile.circuits }
    }
}

/// A verified schedule and how it was found.
#[derive(Debug)]
pub struct Compiled {
    /// The schedule with its proof.
    pub plan: Verified<Schedule>,
    /// What was checked, and how.
    pub checks: Vec<Check>,
    /// Warnings of the verifier.
    pub findings: Vec<Diagnostic>,
    /// All candidates, from cheap to dear.
    pub candidates: Vec<CandidateReport>,
    /// The compiler's price, step by step.
    pub cost: Cost,
    /// The verifier's own price; equal to the compiler's.
    pub price: Price,
    /// What no schedule can be faster than.
    pub bound: Bound,
}

/// Why there is no verified schedule.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The job asks for something that cannot be.
    Input(Vec<Diagnostic>),
    /// What was built is wrong: a fault of the compiler, caught.
    Refuted {
        /// All checks.
        checks: Vec<Check>,
        /// What is wrong.
        findings: Vec<Diagnostic>,
    },
    /// A check that decides was not finished.
    Undecided {
        /// All checks.
        checks: Vec<Check>,
        /// What was found on the way.
        findings: Vec<Diagnostic>,
    },
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, first) = match self {
            Self::Input(findings) => ("", findings.first()),
            Self::Refuted { findings, .. } => ("the schedule is wrong: ", findings.first()),
            Self::Undecided { findings, .. } => ("could not decide: ", findings.first()),
        };
        write!(f, "{what}{}", first.map_or("no reason given", |d| d.message.as_str()))
    }
}

impl std::error::Error for Failure {}

/// Chooses a schedule for the problem and verifies it.
///
/// # Errors
/// [`Failure`]: never a schedule without its proof.
pub fn compile(problem: &Arc<Problem>, fabric: &Fabric, request: &Request, proof: &Proof) -> Result<Compiled, Failure> {
    compile_watched(problem, fabric, request, proof, &())
}

/// [`compile`] with somebody who hears how far it is.
///
/// # Errors
/// As [`compile`].
pub fn compile_watched(
    problem: &Arc<Problem>,
    fabric: &Fabric,
    request: &Request,
    proof: &Proof,
    watch: &dyn Watch,
) -> Result<Compiled, Failure> {
    let elements = problem.groups().iter().map(|group| group.collective().elements()).max().unwrap_or(0).max(1);
    if let Some(chunks) = request.chunks.filter(|&chunks| chunks == 0 || elements < u64::from(chunks)) {
        let finding = Diagnostic::error("X005", format!("{chunks} chunks of a buffer with {elements} elements"))
            .help(format!("ask for 1 to {elements} chunks, or leave the number out"));
        return Err(Failure::Input(vec![finding]));
    }
    let context = BuildContext { circuits: request.circuits, ..BuildContext::new(problem, fabric) };
    let algorithm = Algorithm::parse(&request.algorithm);
    let selection = auto::select_within(&context, algorithm, request.chunks, Limits::default(), watch)
        .map_err(|error| Failure::Input(vec![error.to_diagnostic()]))?;
    let auto::Selection { schedule, candidates, .. } = selection;
    watch.begin("verifying the schedule", 1);
    finish(problem, schedule, candidates, proof)
}

/// Verifies a schedule, prices it twice, and bounds it.
///
/// # Errors
/// [`Failure`].
pub fn finish(
    problem: &Arc<Problem>,
    schedule: Schedule,
    candidates: Vec<CandidateReport>,
    proof: &Proof,
) -> Result<Compiled, Failure> {
    let (plan, checks, mut findings) = judge(problem, schedule, proof)?;
    findings.extend(problem.groups().iter().filter_map(|group| remainder(group.collective())));
    let undecided = |finding: Diagnostic| Failure::Undecided { checks: checks.clone(), findings: vec![finding] };
    let (cost, price) = priced(problem, plan.value()).map_err(undecided)?;
    let bound = bound_at(problem, &plan.value().chunks).map_err(|error| {
        undecided(Diagnostic::error("X006", format!("there is a schedule, but no lower bound: {error}")))
    })?;
    Ok(Compiled { plan, checks, findings, candidates, cost, price, bound })
}

/// Elements that an all_to_all leaves where they are, because its blocks are equal.
fn remainder(collective: &Collective) -> Option<Diagnostic> {
    let left = collective.elements() % u64::from(collective.ranks());
    (matches!(collective.kind(), CollectiveKind::AllToAll { matrix: None }) && left != 0).then(|| {
        let message = format!("{left} of {} elements are not sent", collective.elements());
        Diagnostic::warning("X021", message)
            .note(format!("the blocks of an all_to_all among {} ranks are equal, as in nccl-tests", collective.ranks()))
            .help("choose a size that the ranks divide, or give a size matrix")
    })
}

/// The price of a verified schedule by both evaluators.
///
/// # Errors
/// X006 if they differ.
pub fn priced(problem: &Problem, schedule: &Schedule) -> Result<(Cost, Price), Diagnostic> {
    let cost = evaluate(problem, schedule);
    let price = rondo_verify::price(problem, schedule)
        .map_err(|error| Diagnostic::error("X006", format!("the schedule has no price: {error}")))?;
    if price.total == cost.total {
        return Ok((cost, price));
    }
    let message = format!("the compiler's price {} and the verifier's {} differ", cost.total, price.total);
    Err(Diagnostic::error("X006", message))
}

/// What a finished check gives.
type Judged = (Verified<Schedule>, Vec<Check>, Vec<Diagnostic>);

/// Verifies a schedule, whoever made it.
///
/// # Errors
/// [`Failure::Refuted`] or [`Failure::Undecided`].
pub fn judge(problem: &Arc<Problem>, schedule: Schedule, proof: &Proof) -> Result<Judged, Failure> {
    let outcome = rondo_verify::verify_schedule(Arc::clone(problem), schedule, &proof.options());
    let refuted = outcome.answer() == Answer::Refuted;
    let Outcome { checks, findings, verified } = outcome;
    match verified {
        Some(plan) => Ok((plan, checks, findings)),
        None if refuted => Err(Failure::Refuted { checks, findings }),
        None => Err(Failure::Undecided { checks, findings }),
    }
}
