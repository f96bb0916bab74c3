//! The one description of what a job file may hold.
//!
//! A [`TableInfo`] lists the keys of a table: type, documentation, default with its source, example, and for which
//! variants of the table they are. The `table!` macro makes the description and the struct that is read from one
//! declaration; the reader, the reference page and the JSON Schema all walk it.

/// A table of a job file.
#[derive(Debug)]
pub struct TableInfo {
    /// Documentation, as written at the declaration.
    pub doc: &'static str,
    /// What decides which keys make sense, if anything does.
    pub tag: Option<Tag>,
    /// Its keys in the order of the documentation.
    pub fields: &'static [Field],
}

/// The key whose value decides which other keys a table may have.
#[derive(Debug)]
pub struct Tag {
    /// The key.
    pub key: &'static str,
    /// Keys whose presence implies a value where the tag itself is left out.
    pub implied_by: &'static [(&'static str, &'static str)],
    /// The value where nothing else says it.
    pub default: Option<&'static str>,
}

/// A key of a table.
#[derive(Debug)]
pub struct Field {
    /// The key.
    pub key: &'static str,
    /// Documentation, as written at the declaration.
    pub doc: &'static str,
    /// What its value looks like.
    pub shape: fn() -> Shape,
    /// Whether it must be there.
    pub need: Need,
    /// Values of the tag for which the key makes sense; empty: all.
    pub only: &'static [&'static str],
    /// The value that is used where the key is missing, in TOML, and where that value comes from.
    pub default: Option<Default>,
    /// A value in TOML that could stand there.
    pub example: &'static str,
}

/// A default and its source.
#[derive(Clone, Copy, Debug)]
pub struct Default {
    /// The value, in TOML.
    pub value: &'static str,
    /// Where it comes from, as reports print it.
    pub source: &'static str,
    /// Whether it is a parameter of the cost model, so that reports must print it.
    pub prices: bool,
    /// Values of the tag for which it holds; empty: all.
    pub only: &'static [&'static str],
}

/// Whether a key must be there.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// It may be left out.
    Optional,
    /// It must be there.
    Required,
    /// It must be there for these values of the tag.
    RequiredFor(&'static [&'static str]),
}

/// What a value looks like.
#[derive(Clone, Debug)]
pub enum Shape {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer {
        /// Smallest.
        least: u64,
        /// Largest.
        most: u64,
    },
    /// Some text.
    Text {
        /// What it is, for the reference: `size`, `rate`, …
        what: &'static str,
        /// A regular expression (ECMA 262) that it matches, for the schema; empty: none.
        pattern: &'static str,
    },
    /// One of these words.
    Words(Vec<(&'static str, &'static str)>),
    /// A list.
    List(Box<Shape>),
    /// Exactly two of them.
    Pair(Box<Shape>),
    /// A table.
    Table(&'static TableInfo),
    /// One of several.
    OneOf(Vec<Shape>),
}

impl Field {
    /// A field about which nothing is said yet.
    pub const NEW: Self = Self {
        key: "",
        doc: "",
        shape: || Shape::Boolean,
        need: Need::Optional,
        only: &[],
        default: None,
        example: "",
    };

    /// Whether the key makes sense for this value of the tag; an unknown value excludes nothing.
    #[must_use]
    pub fn applies_to(&self, variant: Option<&str>) -> bool {
        variant.is_none_or(|variant| self.only.is_empty() || self.only.contains(&variant))
    }

    /// Whether the key must be there for this value of the tag.
    #[must_use]
    pub fn is_needed_for(&self, variant: Option<&str>) -> bool {
        match self.need {
            Need::Optional => false,
            Need::Required => self.applies_to(variant),
            Need::RequiredFor(variants) => variant.is_some_and(|variant| variants.contains(&variant)),
        }
    }
}

/// A default that is nothing but a convention of job files.
pub(super) const fn default(value: &'static str, source: &'static str) -> Option<Default> {
    Some(Default { value, source, prices: false, only: &[] })
}

/// A default of the cost model.
pub(super) const fn priced(value: &'static str, source: &'static str) -> Option<Default> {
    Some(Default { value, source, prices: true, only: &[] })
}

/// A default that holds for some values of the tag.
pub(super) const fn default_for(
    only: &'static [&'static str],
    value: &'static str,
    source: &'static str,
) -> Option<Default> {
    Some(Default { value, source, prices: false, only })
}

/// A default of the cost model that holds for some values of the tag.
pub(super) const fn priced_for(
    only: &'static [&'static str],
    value: &'static str,
    source: &'static str,
) -> Option<Default> {
    Some(Default { value, source, prices: true, only })
}

/// The paragraphs of a declaration's documentation on single lines, without the blanks that Rust puts before them.
#[must_use]
pub fn paragraphs(doc: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in doc.lines().map(str::trim) {
        let last = paragraphs.len() - 1;
        match (line.is_empty(), paragraphs[last].is_empty()) {
            (true, false) => paragraphs.push(String::new()),
            (true, true) => {}
            (false, true) => paragraphs[last].push_str(line),
            (false, false) => {
                paragraphs[last].push(' ');
                paragraphs[last].push_str(line);
            }
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

/// Declares a table: the struct that is read (each key with its place, if it was given or has a default) and its
/// [`TableInfo`].
macro_rules! table {
    (
        $(#[doc = $doc:literal])*
        $(@tag $tag:expr;)?
        pub struct $name:ident {
            $(
                $(#[doc = $field_doc:literal])*
                $field:ident: $type:ty { $($attribute:ident: $value:expr),* $(,)? }
            )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $(
                $(#[doc = $field_doc])*
                pub $field: Option<crate::span::Spanned<$type>>,
            )*
        }

        impl $name {
            /// Its description.
            #[allow(clippy::needless_update, reason = "a field may say all there is")]
            pub const TABLE: &'static crate::front::job::describe::TableInfo =
                &crate::front::job::describe::TableInfo {
                    doc: concat!($($doc, "\n"),*),
                    tag: table!(@tag $($tag)?),
                    fields: &[
                        $(
                            crate::front::job::describe::Field {
                                key: stringify!($field),
                                doc: concat!($($field_doc, "\n"),*),
                                shape: <$type as crate::front::job::read::Value>::shape,
                                $($attribute: $value,)*
                                ..crate::front::job::describe::Field::NEW
                            },
                        )*
                    ],
                };
        }

        impl crate::front::job::read::Value for $name {
            fn shape() -> crate::front::job::describe::Shape {
                crate::front::job::describe::Shape::Table(Self::TABLE)
            }

            fn read(
                reader: &mut crate::front::job::read::Reader<'_>,
                path: &str,
                value: &toml::Spanned<toml::de::DeValue<'_>>,
            ) -> Option<Self> {
                let table = reader.open(Self::TABLE, path, value)?;
                Some(Self::read_open(reader, &table))
            }
        }

        impl $name {
            /// Reads the keys of an open table.
            pub fn read_open(
                reader: &mut crate::front::job::read::Reader<'_>,
                table: &crate::front::job::read::Open<'_, '_>,
            ) -> Self {
                Self { $($field: reader.field(table, stringify!($field)),)* }
            }
        }
    };
    (@tag) => { None };
    (@tag $tag:expr) => { Some($tag) };
}
pub(super) use table;
