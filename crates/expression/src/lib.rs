//! The small language of conditions and of texts with variables that keys of the configuration hold.
//!
//! | module | |
//! |---|---|
//! | [`variable`] | the table of all variables, and how one is written |
//! | [`source`] | the sources of the values of variables |
//! | [`text`] | a text with variables: `"$host $path"` |
//! | [`condition`] | a condition: `$status >= 500 and not $path =~ "^/health"` |
//! | [`map`] | from the value of a text to another text |
//! | [`map_text`] | the entries of a map in a file |
//! | [`network`] | networks of addresses, and look-ups in many of them |
//! | `table` | networks and shares in maps |
//! | `murmur` | the hash of shares, that of nginx |
//! | `function` | what a map does with a value in place of a table |
//! | [`scope`] | the variables that are valid for a text |
//! | [`operand`] | a variable where it is used, with its map |
//! | [`lookup`] | the query of a text to a map |
//! | `lexer` | the words of a condition |
//! | [`pattern`] | regular expressions of conditions, maps and routes |
//!
//! All texts are parsed once, when the configuration is read. The evaluation for a request takes linear time,
//! copies only results, and cannot fail: an absent value is empty.

pub mod condition;
mod function;
mod lexer;
pub mod lookup;
pub mod map;
pub mod map_text;
mod murmur;
pub mod network;
pub mod operand;
pub mod pattern;
pub mod scope;
pub mod source;
mod table;
pub mod text;
pub mod variable;

pub use condition::Condition;
pub use function::{FUNCTIONS, Function};
pub use lookup::Piece;
pub use map::{Map, MapSource, Maps};
pub use scope::Scope;
pub use source::Source;
pub use text::Text;
pub use variable::{AvailableFrom, Fact, VARIABLES, Variable, nearest};

/// The longest condition or text, in bytes.
pub const LONGEST: usize = 4096;
