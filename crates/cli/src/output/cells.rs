//! The rows of a box: the texts of its values, measured once and padded to the widths of their columns.
//!
//! Nothing is allocated for a value. The texts of a column stand one behind the other, and all lines are
//! written into one buffer.

use super::value::Values;
use std::io::{self, Write};
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

pub(super) const ELLIPSIS: &str = "…";
const ELLIPSIS_WIDTH: usize = 1;
const SKIPPED_ROW: &str = "·";
const FAINT: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// The values of a column, as they are printed.
#[derive(Default)]
pub(super) struct Cells {
    text: String,
    cells: Vec<Cell>,
    /// The width of the widest.
    pub(super) widest: usize,
}

#[derive(Clone, Copy)]
struct Cell {
    /// The end of its text, which begins where the one before it ends.
    end: usize,
    width: usize,
    is_null: bool,
}

impl Cells {
    /// Adds the values of so many rows, each with at most so many characters; `scratch` is for one of them.
    pub(super) fn add(
        &mut self,
        values: &Values,
        rows: usize,
        null: Null,
        most: usize,
        scratch: &mut String,
    ) -> hypostyle::Result<()> {
        self.cells.reserve(rows);
        for row in 0..rows {
            let is_null = values.is_null(row);
            let width = if is_null {
                null.widest
            } else {
                scratch.clear();
                values.write(row, scratch)?;
                self.push(scratch, most)
            };
            self.widest = self.widest.max(width);
            self.cells.push(Cell { end: self.text.len(), width, is_null });
        }
        Ok(())
    }

    /// Appends a value as it is printed, and returns its width.
    fn push(&mut self, value: &str, most: usize) -> usize {
        if value.len() <= most && is_plain(value) {
            self.text.push_str(value);
            return value.len();
        }
        let start = self.text.len();
        push_printable(value, most, &mut self.text);
        width(&self.text[start..])
    }

    fn cell(&self, row: usize) -> (&str, Cell) {
        let start = row.checked_sub(1).map_or(0, |before| self.cells[before].end);
        (&self.text[start..self.cells[row].end], self.cells[row])
    }
}

/// The text for NULL. It may have more lines, of which the first is shown.
#[derive(Clone, Copy)]
pub(super) struct Null<'a> {
    line: &'a str,
    width: usize,
    widest: usize,
    has_more: bool,
}

impl<'a> Null<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let line = text.split('\n').next().unwrap_or_default();
        let widest = text.split('\n').map(width).max().unwrap_or_default();
        Self { line, width: width(line), widest, has_more: text.contains('\n') }
    }
}

/// A column of a box.
pub(super) struct Column {
    /// The values; None stands for columns that are left out.
    pub(super) cells: Option<Cells>,
    pub(super) width: usize,
    /// Says whether its values stand to the right.
    pub(super) is_right: bool,
}

impl Column {
    /// Appends a text with the space around it, cut if it is wider than the column or has more lines.
    fn push(&self, text: &str, text_width: usize, has_more: bool, line: &mut String) {
        let kept = if text_width > self.width || has_more {
            cut(text, text_width, self.width, has_more)
        } else {
            None
        };
        let (text, text_width, mark) = match kept {
            None => (text, text_width, ""),
            Some(end) => (&text[..end], width(&text[..end]) + ELLIPSIS_WIDTH, ELLIPSIS),
        };
        let space = self.width.saturating_sub(text_width);
        line.push(' ');
        if self.is_right {
            push_spaces(space, line);
        }
        line.push_str(text);
        line.push_str(mark);
        if !self.is_right {
            push_spaces(space, line);
        }
        line.push(' ');
    }

    fn push_row(&self, row: usize, look: &Look, line: &mut String) {
        let Some(cells) = &self.cells else {
            return self.push(ELLIPSIS, ELLIPSIS_WIDTH, false, line);
        };
        match cells.cell(row) {
            (_, cell) if cell.is_null => look.push_faint(line, |line| {
                self.push(look.null.line, look.null.width, look.null.has_more, line);
            }),
            (text, cell) => self.push(text, cell.width, false, line),
        }
    }
}

/// What is around the values.
pub(super) struct Look<'a> {
    pub(super) edge: char,
    pub(super) between: char,
    pub(super) null: Null<'a>,
    pub(super) colours: bool,
}

impl Look<'_> {
    fn push_faint(&self, line: &mut String, push: impl FnOnce(&mut String)) {
        if self.colours {
            line.push_str(FAINT);
        }
        push(line);
        if self.colours {
            line.push_str(PLAIN);
        }
    }

    /// Prints these rows of the columns.
    pub(super) fn print(
        &self,
        out: &mut dyn Write,
        columns: &[Column],
        rows: Range<usize>,
    ) -> io::Result<()> {
        let mut line = String::new();
        for row in rows {
            self.print_line(out, columns, &mut line, |column, line| column.push_row(row, self, line))?;
        }
        Ok(())
    }

    /// Prints the row that stands for those that are not shown.
    pub(super) fn print_dots(&self, out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
        self.print_line(out, columns, &mut String::new(), |column, line| {
            self.push_faint(line, |line| column.push(SKIPPED_ROW, 1, false, line));
        })
    }

    fn print_line(
        &self,
        out: &mut dyn Write,
        columns: &[Column],
        line: &mut String,
        push: impl Fn(&Column, &mut String),
    ) -> io::Result<()> {
        line.clear();
        line.push(self.edge);
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                line.push(self.between);
            }
            push(column, line);
        }
        line.push(self.edge);
        line.push('\n');
        out.write_all(line.as_bytes())
    }
}

/// Returns the columns of a terminal that a text takes.
fn width(text: &str) -> usize {
    // Of others, some take none or two, and some change those next to them.
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Says whether each character of a text is printed as it is, and takes one column.
fn is_plain(text: &str) -> bool {
    // No branch for each of the characters, which are few and nearly always plain.
    !text.bytes().fold(false, |is_odd, byte| is_odd | !(b' '..=b'~').contains(&byte))
}

/// Returns how many bytes of a text are shown before the ellipsis, or None if it is shown whole.
fn cut(text: &str, text_width: usize, column: usize, has_more: bool) -> Option<usize> {
    let fitting = if text_width > column { first_line(text, column) } else { text };
    // Widths of parts need not add up to that of the whole. Nor is a single character cut, however wide.
    if fitting.len() == text.len() && !has_more {
        return None;
    }
    Some(prefix(fitting, column.saturating_sub(ELLIPSIS_WIDTH)))
}

/// Returns what stands on the first line if a text is broken where the column ends: one character at least.
fn first_line(text: &str, column: usize) -> &str {
    match prefix(text, column) {
        0 => &text[..text.chars().next().map_or(0, char::len_utf8)],
        end => &text[..end],
    }
}

/// Returns the bytes of a text's beginning that is no wider. What is seen as one character stays together.
fn prefix(text: &str, column: usize) -> usize {
    if text.is_ascii() {
        return text.len().min(column);
    }
    let (mut end, mut used) = (0, 0);
    for part in text.graphemes(true) {
        used += part.width();
        if used > column {
            break;
        }
        end += part.len();
    }
    end
}

fn push_spaces(mut count: usize, line: &mut String) {
    const SPACES: &str = "                                ";
    while count > 0 {
        let next = count.min(SPACES.len());
        line.push_str(&SPACES[..next]);
        count -= next;
    }
}

/// Appends so many characters of a text on one line, without control characters for the terminal.
pub(super) fn push_printable(text: &str, most: usize, out: &mut String) {
    for (index, c) in text.chars().enumerate() {
        if index == most {
            out.push_str(ELLIPSIS);
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width, presets};

    const TEXTS: [&str; 20] = [
        "",
        "a",
        "ab",
        "abc def",
        "a much longer text",
        "é",
        "über\u{301}",
        "漢",
        "漢字",
        "a漢字b",
        "漢字かな交じり文",
        "e\u{301}e\u{301}e\u{301}e\u{301}",
        "\u{200b}zero\u{200b}width\u{200b}",
        "🙂‍↕️",
        "👨‍👩‍👧 👨‍👩‍👧",
        "☎\u{fe0f}☎\u{fe0f}",
        "🇮🇹🇩🇪🇫🇷",
        "क्त्य क्षि",
        "لا إله",
        "a…b…c",
    ];

    /// Returns the line that comfy_table makes of a text in a row of one line.
    fn comfy(text: &str, width: u16, is_right: bool) -> String {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
        table.set_delimiter('\0').set_truncation_indicator(ELLIPSIS).force_no_tty();
        let mut row = Row::from([text]);
        row.max_height(1);
        table.add_row(row);
        let column = table.column_mut(0).unwrap();
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + 2)));
        column.set_cell_alignment(if is_right { CellAlignment::Right } else { CellAlignment::Left });
        table.lines().nth(1).unwrap()
    }

    fn own(text: &str, column_width: u16, is_right: bool) -> String {
        let column = Column { cells: None, width: column_width.into(), is_right };
        let mut line = String::from("│");
        let null = Null::new(text);
        column.push(null.line, null.width, null.has_more, &mut line);
        line + "│"
    }

    #[test]
    fn texts_are_cut_and_padded_as_comfy_table_does() {
        let lines = ["one\ntwo", "\n", "long line\n", "漢字\n漢字", "\nx"];
        for text in TEXTS.into_iter().chain(lines) {
            for width in 1..24 {
                for is_right in [false, true] {
                    let expected = comfy(text, width, is_right);
                    assert_eq!(own(text, width, is_right), expected, "{text:?} in {width}");
                }
            }
        }
    }

    #[test]
    fn widths_are_those_of_comfy_table() {
        for text in TEXTS.into_iter().chain(["one\nthree", "漢字\nabc", "a\tb"]) {
            let mut table = Table::new();
            table.add_row([text]);
            let expected = usize::from(table.column_max_content_widths()[0]);
            assert_eq!(Null::new(text).widest.max(1), expected, "{text:?}");
        }
    }

    #[test]
    fn values_are_printable_and_bounded() {
        let mut cells = Cells::default();
        for (value, most, printed, width) in [
            ("", 9, "", 0),
            ("plain", 5, "plain", 5),
            ("plain", 4, "plai…", 5),
            ("a\tb\u{7f}", 9, "a\\tb\\u{7f}", 10),
            ("漢字", 9, "漢字", 4),
            ("漢字漢字", 3, "漢字漢…", 7),
            ("\u{85}", 9, "\\u{85}", 6),
        ] {
            let start = cells.text.len();
            assert_eq!(cells.push(value, most), width, "{value:?}");
            assert_eq!(&cells.text[start..], printed);
        }
    }
}
