//! Unit files as systemd itself reads them (systemd.syntax(7)): what it takes, what it ignores, where it stops. Pure.
//!
//! The specification reads the same texts by the rules of its own lexer (`ignition::unit`), which is blind to some slips
//! and refuses some texts that systemd takes; both are asked.
//!
//! | module | knows |
//! |---|---|
//! | [`text`] | lines, continuations, comments |
//! | [`directive`] | kinds of units, their sections, and the sections of well-known keys |
//! | [`oddity`] | what systemd would ignore or refuse in a text |
//! | [`install`] | what `[Install]` says; templates and instances |

pub mod directive;
pub mod install;
pub mod oddity;
pub mod text;
