//! Each call of an operation goes wrong once, in each way it can; then the process ends and another goes on.

use super::bench::{Act, Bench, get_upto, long, name, put_some, small};
use crate::base::Result;
use crate::primitive::queue::{Notes, put_back};
use crate::primitive::wait::Waited;
use crate::sys::Rule;
use crate::world::Fault;

/// Lets each call of `act` go wrong in each way, and looks at what it said and what is left.
fn fail_everywhere(consumed: usize, items: &[Vec<u8>], act: Act, check: impl Fn(Result<usize>, &[Vec<u8>], &Bench)) {
    fail_everywhere_without(None, consumed, items, act, check);
}

fn fail_everywhere_without(
    omitted: Option<Rule>,
    consumed: usize,
    items: &[Vec<u8>],
    act: Act,
    check: impl Fn(Result<usize>, &[Vec<u8>], &Bench),
) {
    let troubles = {
        let bench = Bench::new(consumed, items, None);
        let victim = bench.machine.script();
        act(&victim).unwrap();
        let kernel = bench.machine.kernel();
        kernel.processes[victim.who()].troubles.clone()
    };
    assert!(troubles.len() > 10);
    for (call, kinds) in troubles.iter().enumerate() {
        for &trouble in *kinds {
            let bench = Bench::new(consumed, items, omitted);
            bench.always_well_formed();
            let victim = bench.machine.script();
            bench.machine.kernel().fault = Some(Fault { who: victim.who(), call, trouble });
            let said = match act(&victim) {
                Ok(Waited::Done(count)) => Ok(count),
                Ok(_) => Ok(0),
                Err(error) => Err(error),
            };
            bench.machine.kernel().kill(victim.who());
            let left = bench.drain(&mut Notes::new());
            check(said, &left, &bench);
            bench.check_at_rest();
        }
    }
}

/// Every call goes wrong once: with an error nothing has changed; without, it has happened.
#[test]
fn full_disk() {
    for consumed in [0, 4000] {
        let gets: [(Act, usize); 3] =
            [(|sim| get_upto(sim, 1), 1), (|sim| get_upto(sim, 2), 2), (|sim| get_upto(sim, 9), 5)];
        for (act, most) in gets {
            fail_everywhere(consumed, &long(), act, |said, left, bench| {
                let taken = said.unwrap_or(0);
                assert!(taken <= most);
                assert_eq!(left, &long()[taken..], "{bench}");
            });
        }
        fail_everywhere(
            consumed,
            &small(),
            |sim| put_some(sim, &long()),
            |said, left, bench| {
                let all = [small(), long()].concat();
                assert_eq!(left, if said.is_ok() { &all[..] } else { &all[..3] }, "{bench}");
            },
        );
        let act: Act = |sim| put_back(sim, &name(), &small(), &mut Notes::new()).map(|()| Waited::Done(3));
        fail_everywhere(consumed, &long(), act, |said, left, bench| {
            let all = [small(), long()].concat();
            assert_eq!(left, if said.is_ok() { &all[..] } else { &all[3..] }, "{bench}");
        });
    }
}

#[test]
#[should_panic(expected = "all or nothing")]
fn full_disk_without_undo() {
    let act: Act = |sim| put_some(sim, &long());
    fail_everywhere_without(Some(Rule::AppendUndone), 0, &small(), act, |said, left, _| {
        assert!(said.is_ok() || left.len() == 3, "all or nothing");
    });
}
