//! The C interface of Python, as far as a worker uses it: a table of functions of the stable ABI, which is
//! filled from a library that is opened at run time, and safe functions above it.
//!
//! | module | |
//! |---|---|
//! | `table` | the functions, and the structures that they take |
//! | `object` | references to objects, and what is done with them |
//! | `native` | objects and functions of ours that Python code holds and calls |

mod native;
mod object;
mod table;

pub use native::{Arguments, Calls, Form, Function, Functions, NativeType};
pub use object::{Gil, Kind, Object, Raised};
pub use table::{Api, load};
