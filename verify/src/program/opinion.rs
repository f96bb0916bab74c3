//! Z3's opinion of a program that the exact checks have proved: the queries of [`super::certificate`], solved.

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::program::Program;

use super::certificate::{CertificateLimits, ProgramCertificate, certificate};
use crate::{Answer, Check, Claim};

/// Answers of a solver to the parts of a certificate, in their order; `None` where it did not finish.
#[cfg(feature = "smt")]
pub(super) fn solve(certificate: &ProgramCertificate) -> Vec<Option<bool>> {
    /// Reproducible, and far above what the limits need.
    const RLIMIT: u32 = 200_000_000;
    let answer = |part: &super::certificate::Part| {
        let solver = z3::Solver::new();
        let mut parameters = z3::Params::new();
        parameters.set_u32("rlimit", RLIMIT);
        solver.set_params(&parameters);
        solver.from_string(part.assertions.as_str());
        match solver.check() {
            z3::SatResult::Sat => Some(true),
            z3::SatResult::Unsat => Some(false),
            z3::SatResult::Unknown => None,
        }
    };
    certificate.parts.iter().map(answer).collect()
}

/// Second opinions on a program that the exact checks have proved: `smt-no-deadlock`, `smt-no-race` and `smt-completes`. They
/// decide nothing; one that contradicts is an internal error (V900), and the verdict becomes unknown.
///
/// Without the feature `smt` there are none.
#[must_use]
pub fn second_opinion(claim: &Claim, program: &Program) -> (Vec<Check>, Vec<Diagnostic>) {
    #[cfg(not(feature = "smt"))]
    {
        let _ = (claim, program, CertificateLimits::OPINION);
        (Vec::new(), Vec::new())
    }
    #[cfg(feature = "smt")]
    {
        let certificate = certificate(claim, program, &CertificateLimits::OPINION);
        let answers = solve(&certificate);
        compare(&certificate, &answers)
    }
}

/// Compares the answers with those that prove what the exact checks have proved.
#[cfg_attr(not(feature = "smt"), allow(dead_code))]
fn compare(certificate: &ProgramCertificate, answers: &[Option<bool>]) -> (Vec<Check>, Vec<Diagnostic>) {
    let name = |check: &str| match check {
        "no-deadlock" => "smt-no-deadlock",
        "no-race" => "smt-no-race",
        _ => "smt-completes",
    };
    let mut checks: Vec<Check> = Vec::new();
    let mut findings = Vec::new();
    for (part, answer) in certificate.parts.iter().zip(answers) {
        let (result, detail) = match answer {
            Some(satisfiable) if *satisfiable == part.satisfiable => (Answer::Proved, part.covers.clone()),
            Some(_) => {
                let message = format!("the exact checker proves {}, but the SMT proof refutes it", part.check);
                let help = "this is a fault of Rondo: please report it with the file";
                findings.push(Diagnostic::error("V900", message).note(part.covers.clone()).help(help));
                (Answer::Unknown, format!("disagrees with the exact checker (internal error): {}", part.covers))
            }
            None => (Answer::Unknown, format!("not finished within its budget: {}", part.covers)),
        };
        let decides = result == Answer::Unknown && answer.is_some();
        checks.push(Check { name: name(part.check), answer: result, decides, detail });
    }
    for (check, reason) in &certificate.omitted {
        let detail = format!("not run: {reason}");
        checks.push(Check { name: name(check), answer: Answer::Unknown, decides: false, detail });
    }
    (checks, findings)
}

#[cfg(test)]
mod tests {
    use super::super::certificate::Part;
    use super::*;

    #[test]
    fn a_contradiction_is_never_a_verdict() {
        let part = |check| Part { check, covers: "all".to_owned(), satisfiable: false, assertions: String::new() };
        let certificate = ProgramCertificate { parts: vec![part("no-race"), part("completes")], omitted: Vec::new() };
        let (checks, findings) = compare(&certificate, &[Some(true), Some(false)]);
        assert_eq!((checks[0].answer, checks[0].decides), (Answer::Unknown, true));
        assert_eq!((checks[1].answer, checks[1].decides), (Answer::Proved, false));
        assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["V900"]);
        let (checks, findings) = compare(&certificate, &[None, Some(false)]);
        assert_eq!((checks[0].answer, checks[0].decides), (Answer::Unknown, false));
        assert!(findings.is_empty());
    }
}
