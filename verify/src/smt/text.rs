//! SMT-LIB 2 text, written without a solver.

use std::io::{self, Write};

use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;

use super::encode::{Algebra, Node, Query};

/// What the file is about, as comments, and the logic.
pub(super) fn header(out: &mut dyn Write, problem: &Problem, schedule: &Schedule, queries: usize) -> io::Result<()> {
    writeln!(out, "; every place holds its postcondition, for all inputs: each check-sat must answer unsat")?;
    for group in problem.groups() {
        writeln!(out, "; collective: {}", group.collective())?;
    }
    let algorithm: String = schedule.algorithm.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    writeln!(out, "; algorithm: {algorithm}; steps: {}; queries: {queries}", schedule.steps.len())?;
    writeln!(out, "; x_P_S is the input slot S of position P; every t is the sum (max, min: the or) of two terms")?;
    writeln!(out, "(set-logic QF_LIA)")
}

/// One query; `wrong`: some place is wrong, so the answer must be `sat`.
pub(crate) fn query(out: &mut dyn Write, index: usize, query: &Query, wrong: bool) -> io::Result<()> {
    let (sort, add, empty) = match query.algebra {
        Algebra::Integers => ("Int", "+", "0"),
        Algebra::Booleans => ("Bool", "or", "false"),
    };
    writeln!(out, "; query {index}: group {}, {} places", query.group.index(), query.checks.len())?;
    writeln!(out, "(push 1)")?;
    for input in &query.inputs {
        writeln!(out, "(declare-fun x_{}_{} () {sort})", input.origin, input.slot)?;
    }
    let input = |variable: u32| {
        let input = query.inputs[variable as usize];
        format!("x_{}_{}", input.origin, input.slot)
    };
    let term = |node: u32| match query.nodes[node as usize] {
        Node::Input(variable) => input(variable),
        Node::Add(..) => format!("t{node}"),
    };
    for (index, node) in query.nodes.iter().enumerate() {
        if let Node::Add(a, b) = *node {
            writeln!(out, "(define-fun t{index} () {sort} ({add} {} {}))", term(a), term(b))?;
        }
    }
    for (index, due) in query.expected.iter().enumerate() {
        let parts: Vec<String> = due
            .iter()
            .map(|&(variable, count)| match query.algebra {
                Algebra::Integers if count != 1 => format!("(* {count} {})", input(variable)),
                Algebra::Integers | Algebra::Booleans => input(variable),
            })
            .collect();
        let sum = match parts.as_slice() {
            [] => empty.to_owned(),
            [one] => one.clone(),
            many => format!("({add} {})", many.join(" ")),
        };
        writeln!(out, "(define-fun due{index} () {sort} {sum})")?;
    }
    write!(out, "(assert (or false")?;
    for (held, due) in query.pairs() {
        write!(out, "\n  (not (= {} due{due}))", term(held))?;
    }
    let status = if wrong { "sat" } else { "unsat" };
    writeln!(out, "))\n(set-info :status {status})\n(check-sat)\n(pop 1)")
}
