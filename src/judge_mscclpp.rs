//! Proves or refutes an execution plan of MSCCL++.

use rondo_backends::mscclpp::{self, Failure, Profile};
use rondo_ir::collective::{Buffer, ReduceOperator};
use rondo_ir::diagnostic::{Diagnostic, Severity};
use rondo_ir::onesided::OneSidedProgram;
use rondo_ir::units::Bytes;
use rondo_verify::onesided::{OneSidedOptions, onesided_certificate, verify_onesided};
use rondo_verify::{Answer, Check, Claim};

use crate::judge::{
    JudgeOptions, Judgement, LineStarts, Verdict, certificate_text, claim_of_job, in_words, verdict, worse,
};

const FORMAT: &str = "msccl++ plan";

/// Judges a plan.
pub(crate) fn judge(name: &str, bytes: &[u8], options: &JudgeOptions<'_>) -> Judgement {
    let mut judgement = Judgement::new(Verdict::Refuted, FORMAT);
    if let Some(profile) = options.runtime {
        let message = format!("{} reads MSCCL XML, not plans of MSCCL++", profile.name);
        judgement.findings.push(Diagnostic::error("X013", message).help("name the runtime mscclpp"));
        return judgement;
    }
    if let Some((plan, _)) = options.against_plan {
        let message = format!("a plan of MSCCL++ cannot be compared with {plan}: it has no flows");
        judgement.findings.push(Diagnostic::error("X011", message).help("compare with a job"));
        judgement.verdict = Verdict::Unknown;
        return judgement;
    }
    let parsed = match mscclpp::parse(name, bytes, options.mscclpp.unwrap_or(&Profile::V0_8), options.mscclpp.is_some())
    {
        Ok(parsed) => parsed,
        Err(failure) => {
            (judgement.verdict, judgement.findings) = match failure {
                Failure::Unreadable(findings) => (Verdict::Unreadable, findings),
                Failure::Refuted(findings) => (Verdict::Refuted, findings),
                Failure::TooLarge(findings) => (Verdict::Unknown, findings),
            };
            return judgement;
        }
    };
    judgement.verdict = Verdict::Verified;
    let claimed = &parsed.claimed;
    let mut claim = Claim { collective: claimed.collective.clone(), chunks: claimed.chunks };
    match options.against {
        Some(loaded) => match wanted(&claim, loaded, claimed.promises, &parsed.collective) {
            Ok(wanted) => {
                judgement.against.push(format!("the job {}: {}", loaded.job.file, in_words(&wanted.collective)));
                claim = wanted;
            }
            Err(finding) => {
                judgement.verdict = Verdict::Refuted;
                judgement.findings.push(*finding);
                return judgement;
            }
        },
        None if claimed.promises => {
            judgement.against.push(format!("the file's own claim: {}", in_words(&claim.collective)));
        }
        None => {
            judgement.against.push(format!(
                "no claim: `{}` promises no result; checked for deadlock, races, undefined reads and limits only",
                parsed.collective
            ));
        }
    }
    judgement.findings.extend(parsed.warnings.iter().cloned());
    prove(name, bytes, (&parsed, &claim), options, &mut judgement);
    if !parsed.doubts.is_empty() {
        judgement.verdict = worse(judgement.verdict, Verdict::Unknown);
        let check = |detail: &String| Check {
            name: "modelled",
            answer: Answer::Unknown,
            decides: true,
            detail: detail.clone(),
        };
        judgement.checks.extend(parsed.doubts.iter().map(check));
    }
    if judgement.verdict != Verdict::Verified {
        judgement.certificates.clear();
    }
    judgement.against.push("links and sizes not checked: a plan names no links".to_owned());
    judgement
}

/// The job's collective, if the plan is for it.
fn wanted(
    claim: &Claim,
    loaded: &crate::pipeline::Loaded,
    promises: bool,
    collective: &str,
) -> Result<Claim, Box<Diagnostic>> {
    if !promises {
        let message =
            format!("the collective of the file, `{collective}`, promises no result that a job could ask for");
        return Err(Box::new(Diagnostic::error("X011", message)));
    }
    let wanted = claim_of_job(claim, loaded)?;
    let operator = wanted.collective.operator();
    if wanted.collective.kind().reduces() && operator != ReduceOperator::Sum {
        let message = format!("the job asks for {}, but the runtime always adds", operator.name());
        return Err(Box::new(Diagnostic::error("X011", message)));
    }
    Ok(wanted)
}

/// Runs the checks for each number of turns that pipelines may make.
fn prove(
    name: &str,
    bytes: &[u8],
    (parsed, claim): (&mscclpp::Plan, &Claim),
    options: &JudgeOptions<'_>,
    judgement: &mut Judgement,
) {
    let undecided = |judgement: &mut Judgement, why: String| {
        judgement.verdict = worse(judgement.verdict, Verdict::Unknown);
        judgement.findings.push(Diagnostic::warning("V160", why.clone()));
        judgement.checks.push(Check { name: "modelled", answer: Answer::Unknown, decides: true, detail: why });
    };
    let turns = match parsed.turns() {
        Ok(turns) => turns,
        Err(why) => return undecided(judgement, why),
    };
    let starts = LineStarts::new(bytes);
    let several = 1 < turns.len();
    for turns in turns {
        let lowered = match parsed.lower(turns) {
            Ok(lowered) => lowered,
            Err(why) => return undecided(judgement, why),
        };
        let claim = match with_elements(claim, lowered.program.chunks) {
            Ok(claim) => claim,
            Err(why) => return undecided(judgement, why),
        };
        let proof = options.proof.program_options();
        let asked = OneSidedOptions {
            smt: proof.smt,
            smt_options: proof.smt_options,
            ..OneSidedOptions::for_text(bytes.len())
        };
        let outcome = verify_onesided(&claim, &lowered.program, &asked);
        judgement.verdict = worse(judgement.verdict, verdict(outcome.answer()));
        if options.certificate && outcome.answer() == Answer::Proved {
            match certificate_of(&claim, &lowered.program, &asked) {
                Ok(text) => judgement.certificates.push(text),
                Err(finding) => judgement.findings.push(*finding),
            }
        }
        for mut check in outcome.checks {
            if several {
                check.detail.push_str(&format!(" (pipelines of {turns} turns)"));
            }
            judgement.checks.push(check);
        }
        for found in outcome.findings {
            let finding = starts.placed(name, found);
            let told =
                judgement.findings.iter().any(|known| known.code == finding.code && known.labels == finding.labels);
            if !told || finding.labels.is_empty() && !judgement.findings.contains(&finding) {
                judgement.findings.push(finding);
            }
        }
    }
    // Engines that disagree decide nothing, and a certificate that is missing says nothing about the plan.
    let decides =
        |finding: &Diagnostic| finding.severity == Severity::Error && !matches!(finding.code, "V900" | "X020");
    if judgement.findings.iter().any(decides) {
        judgement.verdict = worse(judgement.verdict, Verdict::Refuted);
    }
}

/// The proofs about a program, as SMT-LIB 2.
fn certificate_of(
    claim: &Claim,
    program: &OneSidedProgram,
    options: &OneSidedOptions,
) -> Result<String, Box<Diagnostic>> {
    let mut text = Vec::new();
    let written = onesided_certificate(claim, program, options, &mut text);
    certificate_text(written, text)
}

/// The claim at the program's slots, each with an element: the runtime takes only sizes that the chunks divide, so no
/// slot is ever empty and excused from holding a result.
fn with_elements(claim: &Claim, chunks: u32) -> Result<Claim, String> {
    let of = &claim.collective;
    let layout = of.layout(chunks).map_err(|error| error.to_string())?;
    let slots = |rank: u32| layout.slots(rank, Buffer::Input).max(layout.slots(rank, Buffer::Output));
    let elements = u64::from((0..of.ranks()).map(slots).max().unwrap_or(0));
    let collective = of.with_buffer_size(Bytes(elements * of.dtype().bytes())).map_err(|error| error.to_string())?;
    Ok(Claim { collective, chunks })
}
