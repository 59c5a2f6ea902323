//! Prints a box for people: names and SQL types above, numbers to the right, NULL faint, and no
//! more rows and columns than a person can read.
//!
//! It keeps only the rows that may be shown: the first `rows_max`, and the last half of that. If
//! all rows are shown, they are laid out and printed in windows, each at least as wide as the
//! earlier ones.

use super::cells::{Cells, Column, ELLIPSIS, Look, Null, push_printable};
use super::format::{Format, Settings, Writer};
use super::value::{Values, is_number};
use crate::failure::Outcome;
use crate::sink::Sink;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use hypostyle::ColumnDescription;
use hypostyle::arrow::array::RecordBatch;
use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

/// The width to which columns are narrowed before any is left out.
const COLUMN_WIDTH_MIN: u16 = 24;
/// The width of a column that is not on a terminal; longer values are cut.
const COLUMN_WIDTH_MAX: u16 = 2000;
/// The rows that are laid out at once if all rows are shown.
const WINDOW_ROWS: usize = 1024;

/// The screen that the box is printed on.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// The width; without one the box is as wide as needed.
    pub width: Option<u16>,
    pub colours: bool,
}

impl Screen {
    pub fn of(settings: &Settings, sink: &Sink) -> Self {
        let on_terminal = sink.is_terminal();
        let width = match u16::try_from(settings.width_max).unwrap_or(u16::MAX) {
            0 if on_terminal => Table::new().width(),
            0 => None,
            width => Some(width),
        };
        let colours = on_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { width, colours }
    }
}

pub struct BoxWriter {
    columns: Vec<ColumnDescription>,
    settings: Settings,
    screen: Screen,
    rows: Rows,
    window: Window,
}

/// The state that the printed windows leave for the next.
#[derive(Default)]
struct Window {
    rows: Vec<RecordBatch>,
    rows_count: usize,
    /// The columns that are shown, once the first window has been laid out.
    visible: Option<Vec<Option<usize>>>,
    /// The greatest widths of their values until now.
    widths: Vec<u16>,
}

/// Rows that are ready to be printed.
struct Layout {
    visible: Vec<Option<usize>>,
    /// The widths of the visible columns.
    widths: Vec<u16>,
    columns: Vec<Column>,
    rows_count: usize,
}

impl BoxWriter {
    pub fn new(settings: &Settings, screen: Screen, columns: &[ColumnDescription]) -> Self {
        let rows = Rows::keep(settings.rows_max);
        let window = Window::default();
        Self { columns: columns.to_vec(), settings: settings.clone(), screen, rows, window }
    }

    fn shows_all(&self) -> bool {
        self.settings.rows_max == 0
    }

    fn header(&self, column: &ColumnDescription) -> Cell {
        // A name is not cut at its column's end, but goes on below.
        let most = self.characters_max() - ELLIPSIS.chars().count();
        let of = column.logical_type.to_string();
        Cell::new(format!("{}\n{}", printable(&column.name, most), printable(&of, most)))
            .set_alignment(CellAlignment::Center)
    }

    /// Returns the characters of a text that may be seen. More of them are not measured, nor laid out, which
    /// takes the square of their number in a name.
    fn characters_max(&self) -> usize {
        let widths = self.settings.column_widths.iter().copied();
        widths.fold(COLUMN_WIDTH_MAX, u16::max).into()
    }

    fn null(&self) -> Null<'_> {
        Null::new(self.settings.null_or("NULL"))
    }

    /// Returns the texts of the visible columns.
    fn texts(
        &self,
        batches: &[&RecordBatch],
        visible: &[Option<usize>],
    ) -> hypostyle::Result<Vec<Option<Cells>>> {
        let (null, most, mut scratch) = (self.null(), self.characters_max(), String::new());
        let mut texts = Vec::with_capacity(visible.len());
        for column in visible {
            let Some(index) = *column else {
                texts.push(None);
                continue;
            };
            let mut cells = Cells::default();
            for batch in batches {
                let schema = batch.schema_ref();
                let values = Values::text(schema.field(index), batch.column(index).as_ref())?;
                cells.add(&values, batch.num_rows(), null, most, &mut scratch)?;
            }
            texts.push(Some(cells));
        }
        Ok(texts)
    }

    /// Returns a table with the names of these columns, if they have headers, and without rows; None stands
    /// for columns that are left out.
    fn frame(&self, visible: &[Option<usize>]) -> Table {
        let mut table = Table::new();
        let preset = match self.settings.format {
            Format::Table => presets::ASCII_FULL_CONDENSED,
            _ => presets::UTF8_FULL_CONDENSED,
        };
        table.load_preset(preset).set_content_arrangement(ContentArrangement::Disabled);
        // Names are broken at the column's end, not at a space before it.
        table.set_delimiter('\0').force_no_tty();
        let header = |column: &Option<usize>| {
            column.map_or(Cell::new(ELLIPSIS), |index| self.header(&self.columns[index]))
        };
        if self.settings.headers {
            table.set_header(visible.iter().map(header));
        } else {
            // A row, which is not printed, makes the columns.
            table.add_row(visible.iter().map(|_| ""));
        }
        table
    }

    /// Prints the upper edge of the box and the names, or the lower edge.
    fn print_frame(&self, out: &mut dyn Write, layout: &Layout, is_above: bool) -> Outcome {
        let mut table = self.frame(&layout.visible);
        for (column, width) in table.column_iter_mut().zip(&layout.widths) {
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width.saturating_add(PADDING))));
        }
        let mut lines: Vec<String> = table.lines().collect();
        let below = lines.pop();
        if !is_above {
            lines = below.into_iter().collect();
        } else if !self.settings.headers {
            lines.truncate(1);
        }
        for line in lines {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn look(&self) -> Look<'_> {
        let (edge, between) = match self.settings.format {
            Format::Table => ('|', '|'),
            _ => ('│', '┆'),
        };
        Look { edge, between, null: self.null(), colours: self.screen.colours }
    }

    /// Returns the greatest width of a column: the one that `.width` has set, or that of all
    /// columns.
    fn width_max(&self, column: Option<usize>, limit: u16) -> u16 {
        let set = column.and_then(|index| self.settings.column_widths.get(index));
        set.copied().filter(|width| *width > 0).unwrap_or(limit)
    }

    /// Returns the widths that columns with these texts need.
    fn widths_needed(&self, visible: &[Option<usize>], texts: &[Option<Cells>]) -> Vec<u16> {
        let mut widths = self.frame(visible).column_max_content_widths();
        for (width, cells) in widths.iter_mut().zip(texts) {
            let widest = cells.as_ref().map_or(1, |cells| cells.widest.max(1));
            *width = (*width).max(u16::try_from(widest).unwrap_or(u16::MAX));
        }
        widths
    }

    /// Lays out rows with the columns that are shown, at least as wide as before.
    fn lay_out(&self, batches: &[&RecordBatch], earlier: &Window) -> Outcome<Layout> {
        let rows_count: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        let all = if rows_count > 0 || self.settings.headers { self.columns.len() } else { 0 };
        let mut visible = earlier.visible.clone().unwrap_or_else(|| (0..all).map(Some).collect());
        let mut texts = self.texts(batches, &visible)?;
        let mut widths = self.widths_needed(&visible, &texts);
        widths.iter_mut().zip(&earlier.widths).for_each(|(width, earlier)| *width = (*width).max(*earlier));
        let limit = column_limit(&widths, self.screen.width);
        for (column, width) in visible.iter().zip(&mut widths) {
            *width = (*width).min(self.width_max(*column, limit));
        }
        if earlier.visible.is_none() {
            let shown = visible_columns(&widths, self.screen.width);
            if shown != visible {
                texts = shown.iter().map(|column| column.and_then(|index| texts[index].take())).collect();
                widths = shown.iter().map(|column| column.map_or(1, |index| widths[index])).collect();
                visible = shown;
            }
        }
        let column = |((column, cells), width): ((&Option<usize>, Option<Cells>), &u16)| {
            let is_right =
                column.is_some_and(|index| is_number(&self.columns[index].logical_type.arrow_type()));
            Column { cells, width: usize::from(*width), is_right }
        };
        let columns = visible.iter().zip(texts).zip(&widths).map(column).collect();
        Ok(Layout { visible, widths, columns, rows_count })
    }

    /// Prints the rows of the window below those of the earlier windows.
    fn print_window(&mut self, out: &mut dyn Write, is_last: bool) -> Outcome {
        let earlier = std::mem::take(&mut self.window);
        let layout = self.lay_out(&earlier.rows.iter().collect::<Vec<_>>(), &earlier)?;
        if earlier.visible.is_none() {
            self.print_frame(out, &layout, true)?;
        }
        self.look().print(out, &layout.columns, 0..layout.rows_count)?;
        if is_last {
            self.print_frame(out, &layout, false)?;
        }
        self.window = Window { visible: Some(layout.visible), widths: layout.widths, ..Window::default() };
        Ok(())
    }

    /// Prints the kept rows, and returns how many columns are shown.
    fn print_kept(&self, out: &mut dyn Write) -> Outcome<usize> {
        let (head, tail) = self.rows.shown();
        let layout = self.lay_out(&head.iter().chain(&tail).collect::<Vec<_>>(), &Window::default())?;
        let above: usize = head.iter().map(RecordBatch::num_rows).sum();
        let look = self.look();
        self.print_frame(out, &layout, true)?;
        look.print(out, &layout.columns, 0..above)?;
        if !tail.is_empty() {
            look.print_dots(out, &layout.columns)?;
            look.print(out, &layout.columns, above..layout.rows_count)?;
        }
        self.print_frame(out, &layout, false)?;
        Ok(layout.visible.iter().flatten().count())
    }

    fn footer(&self, visible: usize, elapsed: Duration) -> String {
        let shown = |all: u64, shown: u64| {
            if shown < all { format!(" ({} shown)", thousands(shown)) } else { String::new() }
        };
        let (rows, columns) = (self.rows.total, self.columns.len() as u64);
        format!(
            "{}{}, {}{} ({})",
            count(rows, "row"),
            shown(rows, self.rows.shown_count()),
            count(columns, "column"),
            shown(columns, visible as u64),
            milliseconds(elapsed)
        )
    }
}

impl Writer for BoxWriter {
    fn batch(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> Outcome {
        if !self.shows_all() || self.columns.is_empty() {
            self.rows.add(batch);
            return Ok(());
        }
        self.rows.total += batch.num_rows() as u64;
        let mut from = 0;
        while from < batch.num_rows() {
            if self.window.rows_count == WINDOW_ROWS {
                self.print_window(out, false)?;
            }
            let rows = (WINDOW_ROWS - self.window.rows_count).min(batch.num_rows() - from);
            self.window.rows.push(batch.slice(from, rows));
            self.window.rows_count += rows;
            from += rows;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write, elapsed: Duration) -> Outcome {
        let visible_count = if self.columns.is_empty() {
            0
        } else if self.shows_all() {
            self.print_window(out, true)?;
            self.window.visible.iter().flatten().flatten().count()
        } else {
            self.print_kept(out)?
        };
        if self.settings.footer {
            writeln!(out, "{}", self.footer(visible_count, elapsed))?;
        }
        Ok(())
    }

    fn streams(&self) -> bool {
        self.shows_all()
    }
}

/// The space on both sides of a value; one border is added to it.
const PADDING: u16 = 2;
const BORDER: u16 = 1;
const AROUND: u32 = (PADDING + BORDER) as u32;

fn total_width(widths: impl IntoIterator<Item = u16>) -> u32 {
    u32::from(BORDER) + widths.into_iter().map(|width| u32::from(width) + AROUND).sum::<u32>()
}

/// Returns the greatest width of a column so that all columns fit, but not less than the minimum.
fn column_limit(widths: &[u16], screen: Option<u16>) -> u16 {
    let fits = |limit: u16| {
        screen.is_none_or(|screen| {
            total_width(widths.iter().map(|width| *width.min(&limit))) <= u32::from(screen)
        })
    };
    let widest = widths.iter().copied().max().unwrap_or(0).min(COLUMN_WIDTH_MAX);
    (COLUMN_WIDTH_MIN..=widest)
        .rev()
        .find(|limit| fits(*limit))
        .unwrap_or(COLUMN_WIDTH_MIN.min(widest.max(1)))
}

/// Returns columns from both ends, as many as fit, and None in the gap between them.
fn visible_columns(widths: &[u16], screen: Option<u16>) -> Vec<Option<usize>> {
    let count = widths.len();
    let everything = (0..count).map(Some).collect();
    let Some(screen) = screen.map(u32::from) else { return everything };
    if total_width(widths.iter().copied()) <= screen {
        return everything;
    }
    let (mut left, mut right) = (0, 0);
    // The gap has a width of one character.
    let mut used = total_width([1]);
    while left + right < count {
        let from_left = left <= right;
        let next = if from_left { left } else { count - 1 - right };
        used += u32::from(widths[next]) + AROUND;
        if used > screen && left + right > 0 {
            break;
        }
        if from_left { left += 1 } else { right += 1 }
    }
    (0..left).map(Some).chain([None]).chain((count - right..count).map(Some)).collect()
}

/// The rows that may be shown, among all received rows.
struct Rows {
    max: usize,
    total: u64,
    head: Vec<RecordBatch>,
    head_rows: usize,
    tail: VecDeque<RecordBatch>,
    tail_rows: usize,
}

impl Rows {
    /// Keeps the rows that are needed to show `max` rows; 0 keeps all.
    fn keep(max: usize) -> Self {
        let max = if max == 0 { usize::MAX } else { max };
        Self { max, total: 0, head: Vec::new(), head_rows: 0, tail: VecDeque::new(), tail_rows: 0 }
    }

    fn tail_max(&self) -> usize {
        self.max / 2
    }

    fn add(&mut self, batch: &RecordBatch) {
        let rows = batch.num_rows();
        self.total += rows as u64;
        let to_head = rows.min(self.max - self.head_rows);
        if to_head > 0 {
            self.head.push(batch.slice(0, to_head));
            self.head_rows += to_head;
        }
        // The tail may overlap the head. All rows are then in the head, and the tail is not used.
        let to_tail = rows.min(self.tail_max());
        if self.max == usize::MAX || to_tail == 0 {
            return;
        }
        self.tail.push_back(batch.slice(rows - to_tail, to_tail));
        self.tail_rows += to_tail;
        while let Some(first) = self.tail.front_mut() {
            let surplus = self.tail_rows - self.tail_rows.min(self.max / 2);
            if surplus == 0 {
                break;
            }
            let (first_rows, drop) = (first.num_rows(), surplus.min(first.num_rows()));
            self.tail_rows -= drop;
            if drop == first_rows {
                self.tail.pop_front();
            } else {
                *first = first.slice(drop, first_rows - drop);
            }
        }
    }

    /// Returns the batches above and below the gap; none below if there is no gap.
    fn shown(&self) -> (Vec<RecordBatch>, Vec<RecordBatch>) {
        if self.total <= self.max as u64 {
            return (self.head.clone(), Vec::new());
        }
        let mut left = self.max - self.tail_max();
        let mut head = Vec::new();
        for batch in &self.head {
            let rows = left.min(batch.num_rows());
            head.push(batch.slice(0, rows));
            left -= rows;
        }
        (head, self.tail.iter().cloned().collect())
    }

    fn shown_count(&self) -> u64 {
        self.total.min(self.max as u64)
    }
}

fn printable(text: &str, most: usize) -> String {
    let mut out = String::new();
    push_printable(text, most, &mut out);
    out
}

pub fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", thousands(number))
}

/// Writes 1234567 as 1,234,567.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::example;
    use hypostyle::arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
    use hypostyle::arrow::datatypes::{DataType, Field, Int64Type};
    use std::sync::Arc;

    fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values(range));
        example::batch(vec![(Field::new("n", DataType::Int64, false), array)])
    }

    fn values(batches: &[RecordBatch]) -> Vec<i64> {
        batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect()
    }

    fn print(settings: &Settings, width: Option<u16>, batches: &[RecordBatch]) -> String {
        let screen = Screen { width, colours: false };
        let mut writer = BoxWriter::new(settings, screen, &example::columns(&batches[0]));
        let mut out = Vec::new();
        for batch in batches {
            writer.batch(&mut out, batch).unwrap();
        }
        writer.end(&mut out, Duration::from_micros(1500)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn head_and_tail_are_kept_across_any_batches() {
        for batch_rows in [1, 3, 7, 100] {
            for total in [0, 1, 9, 10, 11, 30] {
                let mut rows = Rows::keep(10);
                for from in (0..total).step_by(batch_rows) {
                    rows.add(&numbers(from..total.min(from + batch_rows as i64)));
                }
                let (head, tail) = rows.shown();
                let all: Vec<i64> = values(&head).into_iter().chain(values(&tail)).collect();
                let expected: Vec<i64> =
                    if total <= 10 { (0..total).collect() } else { (0..5).chain(total - 5..total).collect() };
                assert_eq!(all, expected, "{total} rows in batches of {batch_rows}");
            }
        }
    }

    #[test]
    fn a_small_result_is_shown_whole() {
        let batch = example::batch(vec![
            (Field::new("id", DataType::Int64, true), Arc::new(Int64Array::from(vec![Some(1), None]))),
            (Field::new("name", DataType::Utf8, true), Arc::new(StringArray::from(vec!["one\ntwo", "x"]))),
        ]);
        let expected = "\
┌────────┬──────────┐
│   id   ┆   name   │
│ BIGINT ┆  VARCHAR │
╞════════╪══════════╡
│      1 ┆ one\\ntwo │
│   NULL ┆ x        │
└────────┴──────────┘
2 rows, 2 columns (1.5 ms)
";
        assert_eq!(print(&Settings::default(), Some(80), &[batch]), expected);
    }

    #[test]
    fn of_long_texts_only_what_is_shown_is_laid_out() {
        let long: ArrayRef = Arc::new(StringArray::from(vec!["x y".repeat(1_000_000)]));
        let name = "n".repeat(1_000_000);
        let batch = example::batch(vec![(Field::new(name, DataType::Utf8, false), long)]);
        let begin = std::time::Instant::now();
        let text = print(&Settings::default(), None, std::slice::from_ref(&batch));
        let cells: Vec<&str> = text.lines().filter(|line| line.starts_with('│')).collect();
        assert_eq!(cells.len(), 3);
        assert!(cells.iter().all(|cell| cell.chars().count() == usize::from(COLUMN_WIDTH_MAX) + 4));
        assert!(cells[0].ends_with("n… │") && cells[2].ends_with("… │"));
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }

    #[test]
    fn a_long_result_shows_both_ends() {
        let settings = Settings { rows_max: 2, ..Settings::default() };
        let text = print(&settings, None, &[numbers(0..1000), numbers(1000..1234)]);
        let cells: Vec<&str> = text.lines().filter(|line| line.starts_with('│')).skip(2).collect();
        assert_eq!(cells, ["│      0 │", "│      · │", "│   1233 │"], "{text}");
        assert!(text.ends_with("1,234 rows (2 shown), 1 column (1.5 ms)\n"), "{text}");
    }

    #[test]
    fn all_rows_are_shown_in_windows_that_fit_together() {
        let settings = Settings { rows_max: 0, ..Settings::default() };
        for total in [0, 1, 1023, 1024, 1025, 5000] {
            let batches: Vec<RecordBatch> =
                (0..total.max(1)).step_by(700).map(|from| numbers(from..total.min(from + 700))).collect();
            let text = print(&settings, Some(80), &batches);
            let lines: Vec<&str> = text.lines().collect();
            let edges = |edge: char| lines.iter().filter(|line| line.starts_with(edge)).count();
            assert_eq!((edges('┌'), edges('╞'), edges('└')), (1, 1, 1), "{total}");
            let shown: Vec<i64> = (lines[4..lines.len() - 2].iter())
                .map(|line| line.trim_matches(['│', ' ']).parse().unwrap())
                .collect();
            assert_eq!(shown, (0..total).collect::<Vec<_>>());
            assert!(lines[lines.len() - 1].ends_with("1 column (1.5 ms)"), "{}", lines[lines.len() - 1]);
        }
    }

    #[test]
    fn a_later_window_is_never_narrower_than_an_earlier_one() {
        let texts = |text: &str| {
            let array: ArrayRef = Arc::new(StringArray::from(vec![text; 1024]));
            example::batch(vec![(Field::new("t", DataType::Utf8, true), array)])
        };
        let settings = Settings { rows_max: 0, ..Settings::default() };
        let text =
            print(&settings, Some(80), &[texts("a long text"), texts("short"), texts("a longer text yet")]);
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!((widths[4], widths[4 + 1024], widths[4 + 2048]), (15, 15, 21));
    }

    /// Two rows with numbers, wide characters, a NULL, a control character and a long text.
    fn of_all_kinds() -> RecordBatch {
        example::batch(vec![
            (Field::new("n", DataType::Int64, true), Arc::new(Int64Array::from(vec![Some(-12_345), None]))),
            (Field::new("漢字", DataType::Utf8, true), Arc::new(StringArray::from(vec!["かな", "a\tb"]))),
            (
                Field::new("text", DataType::Utf8, true),
                Arc::new(StringArray::from(vec![None, Some("some long text, longer than may be")])),
            ),
        ])
    }

    #[test]
    fn values_of_all_kinds_stand_in_their_columns() {
        let settings = Settings { column_widths: vec![0, 0, 9], footer: false, ..Settings::default() };
        let expected = "\
┌────────┬─────────┬───────────┐
│    n   ┆   漢字  ┆    text   │
│ BIGINT ┆ VARCHAR ┆  VARCHAR  │
╞════════╪═════════╪═══════════╡
│ -12345 ┆ かな    ┆ NULL      │
│   NULL ┆ a\\tb    ┆ some lon… │
└────────┴─────────┴───────────┘
";
        assert_eq!(print(&settings, Some(80), &[of_all_kinds()]), expected);
        let settings = Settings { rows_max: 0, ..settings };
        assert_eq!(print(&settings, Some(80), &[of_all_kinds()]), expected);

        let settings = Settings { format: Format::Table, headers: false, null: Some("-".into()), ..settings };
        let expected = "\
+--------+------+-----------+
| -12345 | かな | -         |
|      - | a\\tb | some lon… |
+--------+------+-----------+
";
        assert_eq!(print(&settings, Some(80), &[of_all_kinds()]), expected);
    }

    #[test]
    fn null_and_the_dots_are_faint_with_their_space() {
        let screen = Screen { width: None, colours: true };
        let settings = Settings { rows_max: 2, headers: false, footer: false, ..Settings::default() };
        let array: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(2), Some(30_000)]));
        let batch = example::batch(vec![(Field::new("n", DataType::Int64, true), array)]);
        let mut writer = BoxWriter::new(&settings, screen, &example::columns(&batch));
        let mut out = Vec::new();
        writer.batch(&mut out, &batch).unwrap();
        writer.end(&mut out, Duration::ZERO).unwrap();
        let expected = "\
┌───────┐
│\u{1b}[2m  NULL \u{1b}[0m│
│\u{1b}[2m     · \u{1b}[0m│
│ 30000 │
└───────┘
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_of_each_row() {
        let numbers = |index: i64| -> (Field, ArrayRef) {
            let name = format!("c{index}");
            (Field::new(name, DataType::Int64, false), Arc::new(Int64Array::from(vec![index, -index])))
        };
        let batch = example::batch((0..5).map(numbers).collect());
        let settings = Settings { footer: false, ..Settings::default() };
        let expected = "\
┌────────┬───┬────────┐
│   c0   ┆ … ┆   c4   │
│ BIGINT ┆   ┆ BIGINT │
╞════════╪═══╪════════╡
│      0 ┆ … ┆      4 │
│      0 ┆ … ┆     -4 │
└────────┴───┴────────┘
";
        assert_eq!(print(&settings, Some(23), std::slice::from_ref(&batch)), expected);
        let settings = Settings { rows_max: 0, ..settings };
        assert_eq!(print(&settings, Some(23), &[batch]), expected);
    }

    #[test]
    fn a_box_without_rows_or_names_is_only_edges() {
        let settings = Settings { headers: false, footer: false, ..Settings::default() };
        assert_eq!(print(&settings, None, &[numbers(0..0)]), "┌┐\n└┘\n");
        let settings = Settings { rows_max: 0, ..settings };
        assert_eq!(print(&settings, None, &[numbers(0..0)]), "┌┐\n└┘\n");
    }

    #[test]
    fn a_name_of_more_lines_stands_above_the_first_window_alone() {
        let settings = Settings { rows_max: 0, column_widths: vec![4], ..Settings::default() };
        let text = print(&settings, None, &[numbers(0..2500)]);
        assert_eq!(text.matches("BIGI").count(), 1);
        assert_eq!(text.lines().filter(|line| line.starts_with('│')).count(), 2500 + 3);
    }

    #[test]
    fn columns_may_be_given_a_width() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["some text"]));
        let batch = example::batch(vec![
            (Field::new("a", DataType::Utf8, true), text.clone()),
            (Field::new("b", DataType::Utf8, true), text),
        ]);
        let settings = Settings { column_widths: vec![4, 0], ..Settings::default() };
        let text = print(&settings, None, &[batch]);
        assert!(text.contains("│ som… ┆ some text │"), "{text}");
    }

    #[test]
    fn a_wide_result_loses_its_middle_and_fits() {
        let columns = (0..30).map(|index| {
            let array: ArrayRef = Arc::new(StringArray::from(vec!["some text"]));
            (Field::new(format!("column_{index}"), DataType::Utf8, true), array)
        });
        let text = print(&Settings::default(), Some(80), &[example::batch(columns.collect())]);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            text.contains("column_0 ") && text.contains("column_29") && text.contains(ELLIPSIS),
            "{text}"
        );
        assert!(text.contains("30 columns (") && text.contains(" shown)"), "{text}");
    }

    #[test]
    fn a_long_value_is_cut_and_the_others_stay() {
        let batch = example::batch(vec![
            (Field::new("a", DataType::Utf8, true), Arc::new(StringArray::from(vec!["word ".repeat(50)]))),
            (Field::new("b", DataType::Utf8, true), Arc::new(StringArray::from(vec!["short"]))),
        ]);
        let text = print(&Settings::default(), Some(60), &[batch]);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("…") && text.contains("short") && text.contains("2 columns ("), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("word")).count(), 1, "{text}");
    }

    #[test]
    fn thousands_have_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (6_001_215, "6,001,215")] {
            assert_eq!(thousands(number), text);
        }
    }
}
