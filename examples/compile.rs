//! Compiles a job, prints what was chosen, and writes a file for a runtime.

use std::path::Path;
use std::sync::Arc;

use rondo::compiler::front::job::build_problem;
use rondo::export::{ExportRequest, Format, export};
use rondo::pipeline::{Proof, Request, compile, load_job};

const JOB: &str = r#"
[topology]
kind = "ring"
nodes = 8
bandwidth = "25 GB/s"

[collective]
kind = "all_reduce"
buffer_size = "1 MiB"
in_place = true
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let loaded = load_job("ring8.toml", JOB.as_bytes(), Path::new(".")).map_err(|errors| errors[0].message.clone())?;
    let problem = Arc::new(build_problem(&loaded.job, &loaded.fabric).map_err(|errors| errors[0].message.clone())?);
    let compiled = compile(&problem, &loaded.fabric, &Request::auto(), &Proof::default())?;
    println!("{} in {}", compiled.plan.value().algorithm, compiled.price.total);
    assert!(compiled.bound.time <= compiled.price.total, "nothing is faster than the bound");

    let request = ExportRequest::new("msccl-xml:msccl".parse::<Format>().map_err(|error| error.message)?);
    let file = export(&compiled.plan, &request).map_err(|errors| errors[0].message.clone())?;
    assert!(file.text.starts_with("<algo"));
    Ok(())
}
