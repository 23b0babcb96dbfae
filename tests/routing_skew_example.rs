//! The example of a router that sends all to one rank, run as its user runs it.

mod example;

use example::Example;

static EXAMPLE: Example = Example::named("routing_skew_oom");

#[test]
fn skew_beyond_the_budget_is_an_error_and_the_worst_case_runs() {
    let (code, stdout, stderr) = EXAMPLE.run(&[]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    for part in ["in forward", "more than the", "experts get more tokens than declared", "the budget's to the byte"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
}
