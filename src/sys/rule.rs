/// Rules of the protocols that a searched world can switch off (see [`super::World::keeps`]), to show that the search
/// notices. Named after what they say; the schedule that broke a draft without the rule is the test's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A post marks the gate as ours before it writes the counter.
    GateReplacedFirst,
}
