/// Rules of the protocols that a searched world can switch off (see [`super::World::keeps`]), to show that the search
/// notices. Named after what they say; the schedule that broke a draft without the rule is the test's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A post marks the gate as ours before it writes the counter.
    GateReplacedFirst,
    /// A queue's operation looks at the last byte of `data` first and cuts a torn tail.
    TailFirst,
    /// A line across a page boundary is consumed by `#`, then by NUL.
    HashesBeforeNuls,
    /// So is the rest of a line that somebody died over.
    RemainsLikeLines,
    /// Both from front to back.
    FrontToBack,
    /// A put that failed is undone.
    AppendUndone,
    /// Items go back to the head by a new file, not in place.
    PutBackByRename,
    /// An item without a token is posted only after a peer has had time to fetch it.
    Patience,
    /// The gate of a semaphore has no mark, so that it never looks stale.
    GateWithoutMark,
}
