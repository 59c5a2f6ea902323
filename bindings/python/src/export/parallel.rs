//! Filling an output array on several threads.

/// Rows below which a second thread costs more than it saves.
const ROWS_PER_THREAD_MIN: usize = 128 * 1024;

/// Calls `fill(first row, slice of the output)` for disjoint slices that cover `output`.
pub fn fill<T: Send>(output: &mut [T], threads: usize, fill: impl Fn(usize, &mut [T]) + Sync) {
    let threads = threads.min(output.len() / ROWS_PER_THREAD_MIN).max(1);
    if threads == 1 {
        return fill(0, output);
    }
    let rows = output.len().div_ceil(threads);
    std::thread::scope(|scope| {
        for (index, slice) in output.chunks_mut(rows).enumerate() {
            let fill = &fill;
            scope.spawn(move || fill(index * rows, slice));
        }
    });
}

/// An array of `value(row)` for each row.
pub fn collect<T: Copy + Default + Send>(
    rows: usize,
    threads: usize,
    value: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let mut output = vec![T::default(); rows];
    fill(&mut output, threads, |first, slice| {
        for (index, slot) in slice.iter_mut().enumerate() {
            *slot = value(first + index);
        }
    });
    output
}
