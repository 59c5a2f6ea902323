//! The rules that keep appends whole, so that a test can show that each of them is needed.

/// Which rules are kept. All of them are, but for the tests of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    /// A replica refuses a writer of an earlier token, and a node one of an earlier term.
    pub(crate) refuse_earlier: bool,
    /// A replica refuses a writer that means an earlier life of it.
    pub(crate) refuse_earlier_life: bool,
    /// A replica that gets a request again answers as it did, and writes nothing.
    pub(crate) repeat_answer: bool,
    /// A publication compares its token and positions with those of the catalog.
    pub(crate) compare_and_set: bool,
}

impl Rules {
    /// All rules.
    pub(crate) const ALL: Self =
        Self { refuse_earlier: true, refuse_earlier_life: true, repeat_answer: true, compare_and_set: true };
}
