//! Tables: header cells with their scope, figures aligned, and a wide table scrolls inside its own region
//! that the keyboard can reach, so that the page never scrolls sideways.

use maud::{Markup, html};

/// A table, before it is written.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// What it holds: its caption, and the name of its region.
    pub(super) caption: String,
    /// Headings over several columns each, with their number; empty: none. The first is over the row headers.
    pub(super) groups: Vec<(String, usize)>,
    /// The column headings; the first is that of the row headers.
    pub(super) columns: Vec<String>,
    /// Columns (the row header is 0) that hold words and not figures.
    pub(super) words: Vec<usize>,
    /// The rows, in parts that may have a heading each.
    pub(super) parts: Vec<Part>,
}

/// Some rows under a common heading.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// Its heading, over the whole width.
    pub(super) heading: Option<String>,
    /// Its rows.
    pub(super) rows: Vec<Row>,
}

/// One row.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    /// Its header cell.
    pub(super) header: String,
    /// The cells after it.
    pub(super) cells: Vec<String>,
    /// Stands out, as the peak does.
    pub(super) strong: bool,
}

impl Table {
    /// A table of one part.
    pub(super) fn new(caption: impl Into<String>, columns: &[&str], rows: Vec<Row>) -> Table {
        Table {
            caption: caption.into(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            parts: vec![Part { heading: None, rows }],
            ..Table::default()
        }
    }

    /// The same with these columns holding words.
    pub(super) fn with_words(mut self, columns: &[usize]) -> Table {
        self.words = columns.to_vec();
        self
    }

    /// The table in its region.
    pub(super) fn write(&self) -> Markup {
        html! {
            div class="scroll" role="region" tabindex="0" aria-label={ "Table: " (self.caption) } {
                table {
                    caption { span { (self.caption) } }
                    thead {
                        @if !self.groups.is_empty() { (self.group_row()) }
                        tr {
                            @for (index, column) in self.columns.iter().enumerate() {
                                @if column.is_empty() {
                                    // A header cell without words would be read out as one.
                                    td {}
                                } @else {
                                    th scope="col" class=[self.class(index)] { (column) }
                                }
                            }
                        }
                    }
                    @for part in &self.parts { (self.part(part)) }
                }
            }
        }
    }

    fn group_row(&self) -> Markup {
        html! {
            tr class="groups" {
                @for (heading, columns) in &self.groups {
                    @if heading.is_empty() {
                        td colspan=(columns) {}
                    } @else {
                        th class="begins" scope="colgroup" colspan=(columns) { (heading) }
                    }
                }
            }
        }
    }

    fn part(&self, part: &Part) -> Markup {
        html! {
            tbody {
                @if let Some(heading) = &part.heading {
                    tr class="part" {
                        th scope="rowgroup" colspan=(self.columns.len()) { span { (heading) } }
                    }
                }
                @for row in &part.rows {
                    tr class=[row.strong.then_some("strong")] {
                        th scope="row" class=[self.class(0)] { (row.header) }
                        @for (index, cell) in row.cells.iter().enumerate() {
                            td class=[self.class(index + 1)] { (cell) }
                        }
                    }
                }
            }
        }
    }

    /// Whether the column holds words, and whether a group of columns begins with it.
    fn class(&self, column: usize) -> Option<&'static str> {
        let mut first = 0;
        let begins = column > 0
            && self.groups.iter().any(|(_, columns)| {
                let begins = first == column;
                first += columns;
                begins
            });
        match (self.words.contains(&column), begins) {
            (true, _) => Some("words"),
            (false, true) => Some("begins"),
            (false, false) => None,
        }
    }
}

impl Row {
    /// A row of figures.
    pub(super) fn new(header: impl Into<String>, cells: Vec<String>) -> Row {
        Row { header: header.into(), cells, strong: false }
    }

    /// The same, standing out when `strong`.
    pub(super) fn strong(mut self, strong: bool) -> Row {
        self.strong = strong;
        self
    }
}
