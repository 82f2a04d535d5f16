//! Where a walk through a config stands, kept on the stack and written out as a JSON pointer only when something is found.

use std::fmt::Write as _;

/// A step into a config, with the steps before it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trail<'a> {
    /// The whole document.
    Root,
    /// A field of an object.
    Field(&'a Trail<'a>, &'a str),
    /// An item of a list.
    Item(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    /// The JSON pointer (RFC 6901).
    pub(super) fn pointer(&self) -> String {
        let mut pointer = String::new();
        self.write(&mut pointer);
        pointer
    }

    /// The JSON pointer of a field below this place; `fields` are known names, which need no escaping.
    pub(super) fn below(&self, fields: &[&str]) -> String {
        let mut pointer = self.pointer();
        for field in fields {
            pointer.push('/');
            pointer.push_str(field);
        }
        pointer
    }

    fn write(&self, to: &mut String) {
        match self {
            Self::Root => {}
            Self::Field(up, name) => {
                up.write(to);
                to.push('/');
                for c in name.chars() {
                    match c {
                        '~' => to.push_str("~0"),
                        '/' => to.push_str("~1"),
                        c => to.push(c),
                    }
                }
            }
            Self::Item(up, index) => {
                up.write(to);
                // Writing to a string cannot fail.
                let _ = write!(to, "/{index}");
            }
        }
    }
}
