//! The systems beside one another: how many times faster one is than another over the mixes that both
//! completed, with the interval of the ratio, and whether a difference is shown. If there are several
//! results, this section compares each system with the others.

use maud::{Markup, html};

use super::number;
use super::table::{Row, Table};
use super::view::View;
use super::words;
use touchstone_lab::compare;
use touchstone_lab::result::{Compared, Figure};
use touchstone_lab::statistics::paired::{Conclusion, FEWEST_PAIRS};

/// The most pairs of systems that are shown; with more, only those of the first systems.
const PAIRS_MAX: usize = 40;

/// The section; empty if there is no comparison.
pub(super) fn section(view: &View) -> Markup {
    let compared = all(view);
    html! {
        @if !compared.is_empty() {
            section aria-labelledby="compared" {
                h2 id="compared" { "Beside one another" }
                p class="lead" {
                    "Each mix that two systems completed with the same interface is a pair; the result is \
                     the median of the pairs\u{2019} ratios, with its interval of 95 %. A difference is \
                     shown where the whole interval is outside 1 %; \
                     fewer than " (FEWEST_PAIRS) " pairs are too few."
                }
                (table(&compared).write())
            }
        }
    }
}

/// Every two systems with the same interface.
fn all(view: &View) -> Vec<Compared> {
    let mut compared = compare::of_result(view.result, view.result.suite.seed, usize::MAX);
    compared.truncate(PAIRS_MAX);
    compared
}

fn table(compared: &[Compared]) -> Table {
    Table::new(
        "How many times faster, over the mixes that both completed",
        &["System", "times", "than", "by", "from", "to", "pairs", "what is shown"],
        compared.iter().map(row).collect(),
    )
    .with_words(&[0, 2, 3, 7])
}

/// The better of the two is first.
fn row(compared: &Compared) -> Row {
    let it = &compared.comparison;
    let more_is_better = compared.figure == Figure::Rate;
    let first_is_better = (it.ratio.estimate >= 1.0) == more_is_better;
    let (better, other) = if first_is_better {
        (&compared.first, &compared.second)
    } else {
        (&compared.second, &compared.first)
    };
    let (times, from, to) = if it.ratio.estimate >= 1.0 {
        (it.ratio.estimate, it.ratio.low, it.ratio.high)
    } else {
        (1.0 / it.ratio.estimate, 1.0 / it.ratio.high, 1.0 / it.ratio.low)
    };
    let shown = match it.conclusion {
        Conclusion::FirstHigher | Conclusion::SecondHigher => "a difference",
        Conclusion::NoDifferenceShown => "no difference",
        Conclusion::TooFewPairs => "nothing: too few pairs",
    };
    let cells = vec![
        number::grouped(times, 3),
        words::line(other, 80),
        compared.figure.title().to_owned(),
        number::grouped(from, 3),
        number::grouped(to, 3),
        number::count(it.pairs as u64),
        shown.to_owned(),
    ];
    Row::new(words::line(better, 80), cells)
}

#[cfg(test)]
mod tests {
    use touchstone_lab::result::ResultFile;

    fn page(result: &ResultFile) -> String {
        super::super::html(result, None)
    }

    #[test]
    fn the_faster_stands_first_by_both_figures() {
        // 60,000 against 40,000 requests/s, 16 against 24 µs: 1.5 times by both, in each of three mixes.
        let page = page(&touchstone_lab::sample::result());
        let section = &page[page.find("id=\"compared\"").unwrap()..page.find("id=\"mixes\"").unwrap()];
        assert_eq!(section.matches("<td>1.500</td>").count(), 2 * 3, "{section}");
        let row = section.find("<th scope=\"row\" class=\"words\">touchstone 0.1.0</th>").unwrap();
        assert!(section[row..].contains("nginx 1.22.1") && section.contains("too few pairs"));
    }

    #[test]
    fn a_single_system_has_no_comparison() {
        let mut result = touchstone_lab::sample::result();
        result.systems.truncate(1);
        assert!(!page(&result).contains("id=\"compared\""));
    }
}
