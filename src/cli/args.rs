//! What can be typed. The help texts are the documentation comments of this file.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Compile collective communication schedules, and prove them right before anybody runs them.
///
/// A job file names a collective (what must end up where) and a topology (what can move at what speed). `rondo compile`
/// chooses the cheapest schedule, proves it correct, and writes it for a runtime library. `rondo verify` proves or refutes
/// plan files, ours and those that other tools wrote.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Exit status: 0 done and verified, 1 refuted (or not loadable by the runtime named with --runtime),
2 input that cannot be read or wrong usage, 3 could not decide.

Begin with:  rondo compile examples/ring8/job.toml
Codes such as J003 in messages are explained by `rondo explain J003`.")]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// How results are printed on standard output
    #[arg(long, global = true, value_enum, default_value_t = OutputFormat::Text, value_name = "FORMAT")]
    pub output_format: OutputFormat,

    /// When to use colour in messages
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub color: ColorChoice,

    /// Worker threads; 0 means one a core. Results do not depend on it
    #[arg(long, global = true, default_value_t = 0, value_name = "N", help_heading = "Limits",
        value_parser = clap::value_parser!(u16).range(0..=256))]
    pub threads: u16,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    Text,
    /// The same facts with stable keys
    Json,
    /// Findings for code-review tools (SARIF 2.1.0); of `verify`
    Sarif,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Choose, verify and write a schedule for a job
    ///
    /// Builds every algorithm that fits the job, prices each, verifies the cheapest, and prints what was chosen and why.
    /// With a size range in the job (`buffer_size = "1 KiB..4 GiB"`) a set of plans is compiled, with the exact sizes at
    /// which the winner changes.
    #[command(after_help = "\
Examples:
  rondo compile examples/ring8/job.toml
  rondo compile examples/ring8/job.toml -o plan.json --emit msccl-xml:azure=plan.xml
  rondo compile examples/size-range/job.toml --emit msccl-xml:rccl=plans/")]
    Compile(CompileArguments),

    /// Prove or refute plan files of any known format
    ///
    /// The format is recognised from the content. Claims of a file (its collective, its price) are recomputed, never
    /// trusted; `--against` checks it against an independent job.
    #[command(after_help = "\
Examples:
  rondo verify plan.json
  rondo verify plans/*.xml --runtime rccl
  rondo verify plan.xml --against job.toml
  rondo verify plan.xml --against plan.json
  rondo compile job.toml -o - | rondo verify -")]
    Verify(VerifyArguments),

    /// Write a plan in the format of a runtime library
    #[command(after_help = "\
Examples:
  rondo export plan.json --to msccl-xml:msccl -o plan.xml
  rondo export plan.json --to msccl-xml:azure -o - --protocol LL
  rondo export plan.json --to msccl-xml:azure -o plan.xml --instances 2 --sizes '64 KiB..1 GiB'")]
    Export(ExportArguments),

    /// Price a plan or job: per-step breakdown, lower bound, gap
    #[command(after_help = "\
Examples:
  rondo cost examples/ring8/job.toml
  rondo cost plan.json
  rondo cost job.toml --calibrate nccl-tests-output.txt
  rondo cost job.toml --calibrate ring=ring.txt --calibrate binomial-tree=tree.txt")]
    Cost(CostArguments),

    /// Switch-over points of circuits: which threshold is best at which size and delay, with a proof
    ///
    /// For reduce_scatter, all_gather and all_reduce on a topology with circuits. Prints the sizes at which the best threshold
    /// changes, the rule that every rank can evaluate alone, and proves the rule best for all sizes and delays asked for.
    #[command(after_help = "\
Examples:
  rondo thresholds examples/ocs-ring-32.toml
  rondo thresholds examples/ocs-ring-32.toml --delays '100 ns..10 us' --certificate proof.smt2
  rondo thresholds examples/ocs-ring-32.toml --algorithm swing --sizes '1 KiB..1 GiB' -o table.json")]
    Thresholds(ThresholdsArguments),

    /// Plan optical circuit switches
    #[command(subcommand)]
    Ocs(OcsCommand),

    /// Show a topology as Rondo sees it
    #[command(subcommand)]
    Topology(TopologyCommand),

    /// Rank designs for one collective: time, bound, price, and where the winner changes
    ///
    /// Each job is a design: its cheapest schedule is compiled and verified, and stands beside the lower bound, the topology
    /// paper's formula where it has one, and the price of its switches. Sizes at which the winner changes are exact.
    #[command(after_help = "\
Examples:
  rondo compare examples/clos64/job.toml examples/clos-or-torus/torus.toml
  rondo compare examples/clos-or-torus/*.toml --price quadratic
  rondo compare examples/clos-or-torus/*.toml --sizes '1 KiB..4 GiB' -o comparison")]
    Compare(CompareArguments),

    /// What the communication of a training step takes on several networks
    ///
    /// The job file describes a model, its parallel layout and candidate networks. Message sizes are derived from it; each
    /// collective is compiled and verified on each network.
    #[command(after_help = "\
Example:
  rondo training examples/training/deepseek.toml")]
    Training(TrainingArguments),

    /// Thresholds and times over grids of parameters, as CSV and charts
    ///
    /// Closed forms of the Shortcut paper for a ring with circuits: every combination of the values given. A value list is
    /// `8,32,128`, a range with so many values `1 kB..1 GB/13`, at equal ratios (from 0 on: at equal distances); a range of
    /// nodes has all powers of two.
    #[command(after_help = "\
Examples:
  rondo sweep --hop-delay '100 ns..2 us/6' --reconfiguration '100 ns..10 us/6' --size '32 kB'
  rondo sweep --size '1 kB..1 GB/25' --reconfiguration '1 us,10 us' --algorithm swing --lines -o charts
  rondo sweep --nodes 8..128 --size '1 kB..1 GB/20' --reconfiguration '100 ns..15 ms/20' -o charts")]
    Sweep(SweepArguments),

    /// Print what a paper states beside what the model gives
    ///
    /// Each number is labelled: reproduced, reproduced only if a hop takes twice as long as its label says, or not
    /// reproduced, and why. Items are tables, figures and claims of two papers. Without an item, the items are listed.
    #[command(after_help = "\
Examples:
  rondo reproduce
  rondo reproduce shortcut-claims
  rondo reproduce shortcut-fig6 -o figures
  rondo reproduce topology-table8")]
    Reproduce(ReproduceArguments),

    /// Explain a code from a message
    #[command(after_help = "Example:\n  rondo explain V004")]
    Explain {
        /// The code, such as V004; without one, all codes are listed
        #[arg(value_name = "CODE")]
        code: Option<String>,
    },

    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  rondo completions bash > ~/.local/share/bash-completion/completions/rondo")]
    Completions {
        /// The shell
        #[arg(value_enum, value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Its name, as typed.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Compile(_) => "compile",
            Self::Verify(_) => "verify",
            Self::Export(_) => "export",
            Self::Cost(_) => "cost",
            Self::Thresholds(_) => "thresholds",
            Self::Ocs(_) => "ocs",
            Self::Topology(_) => "topology",
            Self::Compare(_) => "compare",
            Self::Training(_) => "training",
            Self::Sweep(_) => "sweep",
            Self::Reproduce(_) => "reproduce",
            Self::Explain { .. } => "explain",
            Self::Completions { .. } => "completions",
        }
    }
}

/// Options that decide how hard the proof is tried.
#[derive(Clone, Copy, Debug, Args)]
pub struct ProofArguments {
    /// Leave out the independent SMT proof
    #[arg(long, conflicts_with = "require_smt", help_heading = "Proof")]
    pub no_smt: bool,

    /// Without a finished SMT proof the verdict is unknown (exit status 3)
    #[arg(long, help_heading = "Proof")]
    pub require_smt: bool,

    /// Most ranks for which the SMT proof covers every chunk; above, it covers chosen chunks and says which share
    /// [default: the job's, or 256]
    #[arg(long, value_name = "RANKS", help_heading = "Proof")]
    pub smt_ranks: Option<usize>,

    /// Most events for which the SMT proof covers a program (MSCCL XML): instructions unrolled, messages a slot each
    /// [default: 6000]
    #[arg(long, value_name = "EVENTS", help_heading = "Proof")]
    pub smt_events: Option<usize>,
}

/// Arguments of `compile`.
#[derive(Debug, Args)]
pub struct CompileArguments {
    /// Job file (TOML); `-` reads standard input
    #[arg(value_name = "JOB")]
    pub job: PathBuf,

    /// Write the plan (JSON) here; `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Also write the plan in this format: json, msccl-xml:msccl, msccl-xml:azure, msccl-xml:rccl, msccl-xml:unlimited.
    /// A size range writes a folder
    #[arg(long = "emit", value_name = "FORMAT=FILE")]
    pub emit: Vec<String>,

    /// Take this algorithm instead of the job's choice (`auto` builds all that fit)
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<String>,

    /// Cut each block in this many chunks instead of trying several
    #[arg(long, value_name = "N")]
    pub chunks: Option<u32>,

    /// Change the circuits of optical switches by this rule instead of the job's: optimal, best, per-step, paper, off, or
    /// a threshold
    #[arg(long, value_name = "RULE")]
    pub circuits: Option<String>,

    /// Refuse an export to a format that cannot carry the routes
    #[arg(long)]
    pub strict_routes: bool,

    /// Write the proof as SMT-LIB 2 here, for another solver to check
    #[arg(long, value_name = "FILE", help_heading = "Proof")]
    pub certificate: Option<PathBuf>,

    /// How the proof is done.
    #[command(flatten)]
    pub proof: ProofArguments,
}

/// What to do with optical switches.
#[derive(Debug, Subcommand)]
pub enum OcsCommand {
    /// Switch counts, radix and times of the designs and technologies for a job on optical rings
    ///
    /// For each design of the rings and each switching technology (Table I of "Shortcut"): how many switches of how many
    /// ports, how many rings share one, and how long the job's collective takes, by a verified schedule.
    #[command(after_help = "Example:\n  rondo ocs plan examples/ocs-ring-32.toml")]
    Plan {
        /// Job file (TOML); `-` reads standard input
        #[arg(value_name = "JOB")]
        job: PathBuf,
    },

    /// What the controller of each switch has to do for a plan: which ports connect, before which step, after what
    #[command(after_help = "\
Examples:
  rondo compile examples/ocs-ring-32.toml -o plan.json
  rondo ocs program plan.json
  rondo ocs program plan.json --output-format json")]
    Program {
        /// Plan file (JSON); `-` reads standard input
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
    },
}

/// Arguments of `thresholds`.
#[derive(Debug, Args)]
pub struct ThresholdsArguments {
    /// Job file (TOML); `-` reads standard input
    #[arg(value_name = "JOB")]
    pub job: PathBuf,

    /// The algorithm that has the thresholds: halving-doubling or swing
    #[arg(long, value_name = "NAME", default_value = "halving-doubling")]
    pub algorithm: String,

    /// Sizes of the table and of the proof, such as '1 KiB..1 GiB' [default: the job's range, or 1 KB..1 GB]
    #[arg(long, value_name = "LOW..HIGH")]
    pub sizes: Option<String>,

    /// Delays of the proof, such as '100 ns..10 us', synchronisation included [default: the topology's]
    #[arg(long, value_name = "LOW..HIGH")]
    pub delays: Option<String>,

    /// Write the table (JSON) here, for a runtime to load; `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write the question to the solver as SMT-LIB 2 here, for another one to check
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,

    /// Exit with status 3 if the rule is not proved
    #[arg(long)]
    pub require_proof: bool,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// Plan files or folders; `-` reads standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Check against this job, or against this plan (JSON), instead of what the file claims for itself
    #[arg(long, value_name = "JOB")]
    pub against: Option<PathBuf>,

    /// The runtime that must be able to load the file: msccl, azure, rccl, mscclpp
    #[arg(long, value_name = "NAME")]
    pub runtime: Option<String>,

    /// Write the proof as SMT-LIB 2 here, for another solver to check
    #[arg(long, value_name = "FILE", help_heading = "Proof")]
    pub certificate: Option<PathBuf>,

    /// How the proof is done.
    #[command(flatten)]
    pub proof: ProofArguments,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// Plan (JSON); `-` reads standard input
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    /// Format: json, msccl-xml:msccl, msccl-xml:azure, msccl-xml:rccl, msccl-xml:unlimited
    #[arg(long, value_name = "FORMAT")]
    pub to: String,

    /// File to write; `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Protocol: Simple, LL, LL128
    #[arg(long, value_name = "NAME", default_value = "Simple")]
    pub protocol: String,

    /// Channels to spread the work over; 0 chooses
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub channels: u32,

    /// Copies of the plan side by side, each on a share of the data (msccl-xml)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub instances: Option<u32>,

    /// Sizes of calls that the file serves, both ends included (msccl-xml) [default: up to the plan's]
    #[arg(long, value_name = "LOW..HIGH")]
    pub sizes: Option<String>,

    /// Serve calls in place; with --out-of-place both (msccl-xml) [default: as the plan]
    #[arg(long)]
    pub in_place: bool,

    /// Serve calls out of place (msccl-xml)
    #[arg(long)]
    pub out_of_place: bool,

    /// Name in the file (msccl-xml) [default: the algorithm]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Refuse formats that cannot carry the routes
    #[arg(long)]
    pub strict_routes: bool,
}

/// Arguments of `cost`.
#[derive(Debug, Args)]
pub struct CostArguments {
    /// Plan (JSON) or job file (TOML); `-` reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Fit start-up, hop delay and rate to the output of nccl-tests for the collective of the job. May be given several times, with
    /// the algorithm that was measured where it is not the job's: tables of two algorithms tell hop delay from start-up
    #[arg(long, value_name = "[ALGORITHM=]FILE")]
    pub calibrate: Vec<String>,

    /// Print at most this many steps of the breakdown; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub steps: usize,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// Job files (TOML) with the same collective
    #[arg(value_name = "JOB", required = true)]
    pub jobs: Vec<PathBuf>,

    /// Sizes over which the winner is looked for [default: the first job's range, or 1 KB..1 GB]
    #[arg(long, value_name = "LOW..HIGH")]
    pub sizes: Option<String>,

    /// What a switch costs by its ports: linear, quadratic, sqrt, log2, log2_1p, or a file with lines PORTS,PRICE
    #[arg(long, value_name = "FUNCTION", default_value = "linear")]
    pub price: String,

    /// Also write times over sizes as CSV and as a chart (SVG) into this folder, which is made if it is not there
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Arguments of `training`.
#[derive(Debug, Args)]
pub struct TrainingArguments {
    /// Training job (TOML)
    #[arg(value_name = "JOB")]
    pub job: PathBuf,
}

/// Arguments of `sweep`.
#[derive(Debug, Args)]
pub struct SweepArguments {
    /// Endpoints of the ring (n), powers of two
    #[arg(long, value_name = "VALUES", default_value = "32")]
    pub nodes: String,

    /// Sizes of the whole vector (m)
    #[arg(long, value_name = "VALUES", default_value = "1 MB")]
    pub size: String,

    /// Start-ups of a step
    #[arg(long, value_name = "VALUES", default_value = "0 s")]
    pub startup: String,

    /// Delays of a hop
    #[arg(long, value_name = "VALUES", default_value = "2 us")]
    pub hop_delay: String,

    /// Times of a change of circuits, synchronisation included
    #[arg(long, value_name = "VALUES", default_value = "4 us")]
    pub reconfiguration: String,

    /// Rate of a link, each direction
    #[arg(long, value_name = "RATE", default_value = "800 Gbps")]
    pub bandwidth: String,

    /// Algorithms: halving-doubling, swing, or both
    #[arg(long, value_name = "NAMES", default_value = "halving-doubling")]
    pub algorithm: String,

    /// Collective: reduce_scatter, all_gather or all_reduce
    #[arg(long, value_name = "NAME", default_value = "reduce_scatter")]
    pub collective: String,

    /// Also write the points (sweep.csv) and charts (SVG) into this folder, which is made if it is not there
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Parameter along the lower side of the charts [default: the last one with several values, but `size` for curves]
    #[arg(long, value_name = "PARAMETER", requires = "output", help_heading = "Charts")]
    pub x: Option<String>,

    /// Parameter along the left side of heat maps, or that tells curves apart [default: another one with several values]
    #[arg(long, value_name = "PARAMETER", requires = "output", help_heading = "Charts")]
    pub y: Option<String>,

    /// Draw curves instead of heat maps
    #[arg(long, requires = "output", help_heading = "Charts")]
    pub lines: bool,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArguments {
    /// What to reproduce, such as shortcut-fig6 or topology-table8; without it, all items are listed
    #[arg(value_name = "ITEM")]
    pub item: Option<String>,

    /// Also write the points as CSV and the charts as SVG into this folder, which is made if it is not there
    #[arg(short, long, value_name = "DIR", requires = "item")]
    pub output: Option<PathBuf>,
}

/// The commands of `topology`.
#[derive(Debug, Subcommand)]
pub enum TopologyCommand {
    /// What is in a job's topology or a machine's file, as a person sees it
    #[command(after_help = "\
Examples:
  rondo topology show examples/ring8/job.toml
  rondo topology show topo.xml")]
    Show {
        /// Job file, NCCL topology XML, or `nvidia-smi topo -m` text; `-` reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Turn a machine's file into a job's topology section
    #[command(after_help = "\
Examples:
  rondo topology import topo.xml -o machine.toml
  nvidia-smi topo -m | rondo topology import - --nvlink '25 GB/s'")]
    Import {
        /// NCCL topology XML or `nvidia-smi topo -m` text; `-` reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Where to write the job; `-` for standard output
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
        /// Rate of one NVLink in each direction, where the file does not say
        #[arg(long, value_name = "RATE")]
        nvlink: Option<String>,
    },
}
