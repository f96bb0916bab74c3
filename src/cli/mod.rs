//! The command line: arguments in, results on standard output, messages on standard error, an exit status.
//!
//! One module a command under `commands/`; each only orchestrates the library. `render` prints.

mod args;
mod commands;
mod io;
mod progress;
mod render;
mod report;

use std::cell::Cell;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use rondo_ir::diagnostic::{CodeEntry, Diagnostic, Severity};
use serde_json::Value;

pub use args::{Arguments, Command, OutputFormat};

/// How a command ended; the worst of many files decides, in the order refuted, input, undecided, done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    /// Done and verified.
    Done,
    /// Could not decide.
    Undecided,
    /// Input that cannot be read, or usage.
    Input,
    /// Refuted in every reading, or not loadable by the runtime that was named.
    Refuted,
}

impl Status {
    /// The word for a command without a result.
    const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Undecided => "unknown",
            Self::Input => "unreadable",
            Self::Refuted => "refuted",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refuted => 1,
            Self::Input => 2,
            Self::Undecided => 3,
        }
    }
}

/// What the commands share: where to print, and how.
struct Session {
    printer: render::Printer,
    format: OutputFormat,
    /// Whether a result is on standard output.
    printed: Cell<bool>,
}

impl Session {
    /// Prints a text on standard output, without what a terminal would obey. A reader that has gone is no error.
    fn print(&self, text: &str) -> Result<(), Vec<Diagnostic>> {
        self.printed.set(true);
        io::print(render::visible(text).as_bytes()).map_err(|finding| vec![finding])
    }

    /// Prints a report as JSON; an object with `messages`: what went to standard error before it.
    fn print_json(&self, mut report: Value) -> Result<(), Vec<Diagnostic>> {
        self.printed.set(true);
        if let Some(report) = report.as_object_mut() {
            report.insert("messages".to_owned(), Value::Array(self.printer.kept()));
        }
        io::print(format!("{report}\n").as_bytes()).map_err(|finding| vec![finding])
    }

    /// In JSON, a command that ended without a result says on standard output why.
    fn explain_in_json(&self, command: &str, status: Status) {
        if self.format == OutputFormat::Json && !self.printed.get() && status != Status::Done {
            let report = serde_json::json!({
                "command": command, "verdict": status.name(), "status": status.code(), "errors": self.printer.kept(),
            });
            let _ = io::print(format!("{report}\n").as_bytes());
        }
    }

    /// Prints diagnostics and says how bad they are.
    fn report(&self, diagnostics: &[Diagnostic], sources: &render::Sources) -> Status {
        self.printer.diagnostics(diagnostics, sources);
        if diagnostics.iter().any(|d| d.severity == Severity::Error) { Status::Input } else { Status::Done }
    }
}

/// Reads the process's arguments and runs them.
///
/// Wrong usage is an error like any other: as JSON too, where that is asked for.
#[must_use]
pub fn main() -> ExitCode {
    let error = match Arguments::try_parse() {
        Ok(arguments) => return run(arguments),
        Err(error) => error,
    };
    let given: Vec<_> = std::env::args_os().collect();
    let json = given.iter().any(|word| word == "--output-format=json")
        || given.windows(2).any(|pair| pair[0] == "--output-format" && pair[1] == "json");
    // Nobody listening is no error.
    let _ = error.print();
    if json && error.use_stderr() {
        let text = error.render().to_string();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let message = lines.next().unwrap_or_default();
        let mut finding = Diagnostic::error("X023", message.strip_prefix("error: ").unwrap_or(message));
        finding.help.extend(lines.map(str::to_owned));
        let errors = [render::located(&finding, &render::Sources::new())];
        let status = Status::Input;
        let report = serde_json::json!({
            "command": null, "verdict": status.name(), "status": status.code(), "errors": errors,
        });
        let _ = io::print(format!("{report}\n").as_bytes());
    }
    ExitCode::from(if error.use_stderr() { Status::Input.code() } else { Status::Done.code() })
}

/// Runs a command line to its exit status.
#[must_use]
pub fn run(arguments: Arguments) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        // Standard error may be closed: `eprintln!` would panic again.
        let mut out = std::io::stderr().lock();
        let _ = writeln!(out, "rondo: internal error: {panic}");
        let _ = writeln!(
            out,
            "This is a bug in rondo {}. Please report it with the command and its input.",
            env!("CARGO_PKG_VERSION")
        );
    }));
    if 0 < arguments.threads {
        // Fails only if a pool exists already, which then serves.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(usize::from(arguments.threads)).build_global();
    }
    let session = Session {
        printer: render::Printer::new(arguments.color, arguments.output_format == OutputFormat::Json),
        format: arguments.output_format,
        printed: Cell::new(false),
    };
    let command = arguments.command.name();
    if session.format == OutputFormat::Sarif && command != "verify" {
        let message = format!("`rondo {command}` has no findings to show in code review, so it has no SARIF");
        let finding = Diagnostic::error("X005", message).help("allowed: --output-format text, --output-format json");
        return ExitCode::from(session.report(&[finding], &render::Sources::new()).code());
    }
    let result = match &arguments.command {
        Command::Compile(arguments) => commands::compile::run(&session, arguments),
        Command::Verify(arguments) => commands::verify::run(&session, arguments),
        Command::Export(arguments) => commands::export::run(&session, arguments),
        Command::Cost(arguments) => commands::cost::run(&session, arguments),
        Command::Ocs(command) => commands::ocs::run(&session, command),
        Command::Thresholds(arguments) => commands::thresholds::run(&session, arguments),
        Command::Topology(command) => commands::topology::run(&session, command),
        Command::Compare(arguments) => commands::compare::run(&session, arguments),
        Command::Training(arguments) => commands::training::run(&session, arguments),
        Command::Sweep(arguments) => commands::sweep::run(&session, arguments),
        Command::Reproduce(arguments) => commands::reproduce::run(&session, arguments),
        Command::Explain { code } => commands::explain::run(&session, code.as_deref()),
        Command::Completions { shell } => commands::completions::run(*shell),
    };
    let status = result.unwrap_or_else(|diagnostics| {
        session.report(&diagnostics, &render::Sources::new());
        if crate::export::is_refutation(&diagnostics) { Status::Refuted } else { Status::Input }
    });
    session.explain_in_json(command, status);
    ExitCode::from(status.code())
}

/// What a command gives: its status, or what stopped it (exit status 2).
type CommandResult = Result<Status, Vec<Diagnostic>>;

/// The codes of this crate.
const CODES: &[CodeEntry] = &[
    CodeEntry {
        code: "X001",
        title: "a file cannot be read",
        explanation: "The operating system refused to open or read the file; its reason stands in the message. `-` reads standard input.",
    },
    CodeEntry {
        code: "X002",
        title: "a file is too large",
        explanation: "Rondo reads plan and job files whole, up to 4 GiB. A plan of that size is far beyond what any runtime loads.",
    },
    CodeEntry {
        code: "X003",
        title: "a file cannot be written",
        explanation: "The operating system refused to write; its reason stands in the message. A file is written beside its place and then \
                      renamed, so that no half-written file is ever left: the folder itself must be writable.",
    },
    CodeEntry {
        code: "X004",
        title: "the content is of no known format",
        explanation: "`rondo verify` recognises a file from its content: a plan of Rondo begins with `{ \"format\": \"rondo.plan\"`, MSCCL XML with \
                      an element `<algo …>`. The file may be cut off, compressed, or of another tool.",
    },
    CodeEntry {
        code: "X005",
        title: "an option has a value that does not exist",
        explanation: "The message lists what is allowed.",
    },
    CodeEntry {
        code: "X006",
        title: "compiler and verifier disagree on a price",
        explanation: "The price of a schedule is computed twice, by code that shares nothing. They differ: one of the two is wrong, and the schedule is \
                      not handed out. This is a bug in Rondo; please report it with the job.",
    },
    CodeEntry {
        code: "X007",
        title: "a file cannot be written from this",
        explanation: "Every file is parsed again after it was written, verified from its text alone, and compared with the schedule it was made \
                      from. Either the source cannot be exported, or one of these checks found a fault; then nothing is written.",
    },
    CodeEntry {
        code: "X008",
        title: "the format does not carry routes",
        explanation: "MSCCL XML says who sends what to whom, not over which links. Where the topology offers several ways, the runtime chooses: the \
                      result is the same, the time may not be. --strict-routes refuses such an export.",
    },
    CodeEntry {
        code: "X009",
        title: "no candidate fits the runtime",
        explanation: "For a range of sizes, candidates that break a limit of the runtime are left out; here all of them do. The notes give each limit.",
    },
    CodeEntry {
        code: "X010",
        title: "a plan claims a wrong price",
        explanation: "A plan may carry its price. It is recomputed from the schedule and the cost model in the file, exactly. A difference means that \
                      the file was changed after it was compiled.",
    },
    CodeEntry {
        code: "X011",
        title: "the file is not for this job",
        explanation: "With --against, collective, topology, placement, cost model and initial circuits must be those of the job (of a program file, the \
                      collective; it holds nothing else). The notes show both.",
    },
    CodeEntry {
        code: "X016",
        title: "no runtime loads the file",
        explanation: "The file was written for `unlimited`, a runtime that does not exist: its threadblocks, channels or elements may be more than \
                      any real one holds. Such files are for study, and for tools that read the format.",
    },
    CodeEntry {
        code: "X017",
        title: "a folder is not overwritten",
        explanation: "A set of plans takes a folder of its own, because some runtimes load every file that they find there. A set is replaced as a \
                      whole by the next one of the same name: Rondo knows it by its index.json, which lists its files. A folder that holds \
                      anything else is left alone.",
    },
    CodeEntry {
        code: "X018",
        title: "one price for a range of sizes",
        explanation: "The job gives a range of sizes and a price is for one size: the smallest. `rondo compile` compiles the whole range and shows where \
                      one plan gives way to the next.",
    },
    CodeEntry {
        code: "X015",
        title: "a plan in place for calls out of place",
        explanation: "A plan that was compiled in place keeps its result where the input is. A call out of place gives two buffers and must leave the \
                      input alone. Compile with in_place = false; such a plan begins with a copy, which costs nothing where both are one buffer.",
    },
    CodeEntry {
        code: "X013",
        title: "no runtime loads this kind of file",
        explanation: "Rondo's own plans are loaded by no runtime: export them first. Files written without limits (`unlimited`) are for \
                      study: no runtime promises to hold them. Name the runtime that is to load the file, and export for it.",
    },
    CodeEntry {
        code: "X019",
        title: "the runtime does not use its plans on several machines",
        explanation: "RCCL loads MSCCL files and switches MSCCL off when the ranks are on more than one node, unless \
                      RCCL_MSCCL_FORCE_ENABLE=1 is set (ROCm/rccl#1018); it also wants a topology model with MSCCL enabled. The file is right; \
                      it is not used, and nothing says so.",
    },
    CodeEntry {
        code: "X022",
        title: "the verdict is unknown",
        explanation: "A check that decides was not finished, so the file is neither verified nor refuted (exit status 3). With --require-smt \
                      the SMT proof is such a check: it has to cover everything, within its limits. The notes name each check and its limit.",
    },
    CodeEntry {
        code: "X023",
        title: "wrong usage",
        explanation: "An argument or option is missing, unknown or has a value that it cannot have. `rondo COMMAND --help` lists all of them.",
    },
    CodeEntry {
        code: "X025",
        title: "no optical rings",
        explanation: "`rondo ocs plan` compares designs of optical rings: the job's topology is of kind optical-ring, optical-torus or \
                      photonic-rails. `rondo ocs program` prints what the switches of a plan do, so the plan's topology has devices.",
    },
    CodeEntry {
        code: "X024",
        title: "no thresholds",
        explanation: "A threshold says from which step of log₂ n on circuits are changed. It belongs to reduce_scatter, all_gather and \
                      all_reduce among 2, 4, 8, … ranks on a topology with circuits that all take one time to change. Up to 128 ranks the \
                      plans are built and verified; for more, prices are closed forms, which are for one optical ring.",
    },
    CodeEntry {
        code: "X026",
        title: "no range of sizes where changes of circuits overlap",
        explanation: "A set of plans switches where the straight lines of two prices meet. With `overlap_reconfiguration` only what a \
                      change takes beyond the step before is paid, which bends the lines. Compile for single sizes instead.",
    },
    CodeEntry {
        code: "X028",
        title: "a sweep that is too large",
        explanation: "`rondo sweep` computes every combination of the values given, at most two million, and draws at most 64 charts: one \
                      (or a pair of heat maps an algorithm) for each combination of the parameters that are not along the chart's sides. Give fewer values, or \
                      leave -o out.",
    },
    CodeEntry {
        code: "X029",
        title: "jobs that cannot be compared",
        explanation: "`rondo compare` ranks designs for one collective: all jobs have the same kind, buffer size, element type and operator. Numbers of \
                      ranks may differ.",
    },
    CodeEntry {
        code: "X030",
        title: "a training job that cannot be priced",
        explanation: "A training job has [model] (sequence, hidden, layers, micro_batch, parameters), [parallelism] (tensor, pipeline, data, expert), \
                      [step] (how often each collective runs, computing time, overlap) and at least one [[network]] with a name and the file \
                      of its topology. The product of the degrees may not exceed the network's nodes. docs/training.md has an example.",
    },
    CodeEntry {
        code: "X027",
        title: "a chart cannot be drawn",
        explanation: "The library that draws charts refuses. This is a bug in Rondo; please report it with the command and its input.",
    },
    CodeEntry {
        code: "X020",
        title: "no certificate",
        explanation: "A certificate holds the queries of a proof as SMT-LIB 2, for another solver. Only a file that is verified has one, and \
                      only up to a size that a solver can bear; the message says what stands against it. MSCCL++ plans have none yet.",
    },
    CodeEntry {
        code: "X021",
        title: "elements that an all_to_all leaves out",
        explanation: "Every pair of an all_to_all exchanges a block of ⌊elements/ranks⌋ elements, as in nccl-tests; what remains stays where it is. \
                      Choose a size that the ranks divide, or give the size of each block with a size matrix.",
    },
];

/// Every code of every crate, sorted, as `rondo explain` lists them.
#[must_use]
pub fn all_codes() -> Vec<CodeEntry> {
    let mut codes: Vec<CodeEntry> = CODES.to_vec();
    codes.extend(rondo_compiler::codes());
    codes.extend(rondo_verify::codes());
    codes.extend(rondo_backends::codes());
    codes.sort_by_key(|entry| entry.code);
    codes
}
