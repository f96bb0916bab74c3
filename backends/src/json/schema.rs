//! The JSON Schema of a plan file, made from the types that read it; rows are described here by hand.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::model::{
    ExactTime, FlowRow, Format, HopRow, Letter, LinkRow, Located, OperationFile, OperationRow, PlanFile, PortRow,
    RouteRow, SplitRoute, Version,
};

/// The JSON Schema (draft 2020-12) of a plan file, as `docs/plan.schema.json` holds it.
///
/// # Example
/// ```
/// assert!(rondo_backends::json::schema_text().contains("\"title\": \"Rondo plan\""));
/// ```
#[must_use]
pub fn schema_text() -> String {
    let schema = schemars::schema_for!(PlanFile<'static>);
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

/// Makes `JsonSchema` for a type that is described by hand.
macro_rules! schema {
    ($type:ty, $name:literal, |$generator:ident| $body:expr) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $body
            }
        }
    };
}

fn number() -> serde_json::Value {
    serde_json::json!({"type": "integer", "minimum": 0, "maximum": u32::MAX})
}

fn slot() -> serde_json::Value {
    serde_json::json!({"type": "integer", "minimum": 0, "maximum": (1_u32 << 30) - 1})
}

schema!(FlowRow, "Flow", |generator| json_schema!({
    "description": "[source rank, source buffer, first source slot, destination rank, destination buffer, first destination slot, number of slots, operation, path, group if not 0]",
    "type": "array",
    "prefixItems": [
        number(),
        generator.subschema_for::<Letter>(),
        slot(),
        number(),
        generator.subschema_for::<Letter>(),
        slot(),
        {"type": "integer", "minimum": 1, "maximum": (1_u32 << 30) - 1},
        {"enum": ["copy", "reduce"]},
        {
            "description": "\"local\", the number of a route, or a tree",
            "anyOf": [
                {"const": "local"},
                slot(),
                {
                    "type": "array",
                    "prefixItems": [{"enum": ["multicast", "aggregate"]}, slot()],
                    "minItems": 2,
                    "maxItems": 2
                }
            ]
        },
        number()
    ],
    "minItems": 9,
    "maxItems": 10
}));

schema!(LinkRow<'_>, "Link", |_generator| json_schema!({
    "description": "[source node, destination node, capacity (\"25 GB/s\"), latency (\"500 ns\"), \"down\" if it may not be used]",
    "type": "array",
    "prefixItems": [number(), number(), {"type": "string"}, {"type": "string"}, {"const": "down"}],
    "minItems": 4,
    "maxItems": 5
}));

schema!(PortRow<'_>, "Port", |_generator| json_schema!({
    "description": "[node, direction, capacity in each direction (\"25 GB/s\"), latency (\"500 ns\")]",
    "type": "array",
    "prefixItems": [number(), {"enum": ["tx", "rx", "duplex"]}, {"type": "string"}, {"type": "string"}],
    "minItems": 4,
    "maxItems": 4
}));

schema!(HopRow, "Hop", |_generator| json_schema!({
    "description": "the number of a link, or a circuit as [device, from port, to port]",
    "anyOf": [
        number(),
        {"type": "array", "prefixItems": [number(), number(), number()], "minItems": 3, "maxItems": 3}
    ]
}));

schema!(RouteRow, "Route", |generator| json_schema!({
    "description": "a list of hops, or the parts of a route that is split",
    "anyOf": [
        {"type": "array", "items": generator.subschema_for::<HopRow>()},
        generator.subschema_for::<SplitRoute>()
    ]
}));

schema!(Letter, "Buffer", |_generator| json_schema!({
    "description": "input, output or scratch",
    "enum": ["i", "o", "s"]
}));

schema!(ExactTime, "Time", |_generator| json_schema!({
    "description": "exact seconds, numerator/denominator",
    "type": "string",
    "pattern": "^-?[0-9]+/[0-9]+$",
    "maxLength": 1000
}));

schema!(Format, "Format", |_generator| json_schema!({"const": super::FORMAT}));

schema!(Version, "Version", |_generator| json_schema!({"type": "string", "pattern": "^1\\.[0-9]{1,9}$"}));

impl JsonSchema for OperationRow {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        OperationFile::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<OperationFile>()
    }
}

impl<T: JsonSchema> JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}
