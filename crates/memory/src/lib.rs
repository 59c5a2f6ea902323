//! Counts how much memory a process has allocated, and for whom.
//!
//! A program that makes [`Counting`] its global allocator knows [`total`] exactly. Allocations
//! within [`Account::charge`] are also charged to an account, and memory that is freed within it is
//! deducted. Memory that is freed elsewhere stays on the account. So accounts only say who has
//! most, never how much there is. With another global allocator nothing is counted: `total` is
//! `None` and accounts stay empty.
//!
//! Blocks of a wider alignment, such as Arrow's, are within plain ones. The C library (glibc before
//! 2.38) looks for more than such a block takes, and never uses a freed one again for another of its
//! size: a process took twice what it had allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// The number of threads that have a counter of their own, which costs them next to nothing. Later
/// threads share counters.
const OWN: usize = 256;
const SHARED: usize = 32;

/// The bytes after which a thread updates an account's counter, which many threads share.
const ACCOUNT_STEP: i64 = 64 << 10;

/// A counter in a cache line of its own.
#[repr(align(128))]
struct Counter(AtomicI64);

static ALLOCATED: [Counter; OWN + SHARED] = [const { Counter(AtomicI64::new(0)) }; OWN + SHARED];

/// The number of threads that have allocated.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The counters of one thread.
struct Thread {
    /// The thread's number among the counters, from 1 on; 0 before it has allocated.
    place: Cell<usize>,
    /// The counter of the account that its allocations are charged to, or null.
    charged: Cell<*const AtomicI64>,
    /// The bytes that have not been added to that counter yet.
    pending: Cell<i64>,
}

thread_local! {
    // This is a constant without a destructor: reading it neither allocates nor registers anything.
    static THREAD: Thread = const {
        Thread { place: Cell::new(0), charged: Cell::new(ptr::null()), pending: Cell::new(0) }
    };
}

impl Thread {
    fn count(&self, bytes: i64) {
        if self.place.get() == 0 {
            let number = THREADS.fetch_add(1, Ordering::Relaxed);
            self.place.set(1 + if number < OWN { number } else { OWN + number % SHARED });
        }
        let place = self.place.get() - 1;
        let counter = &ALLOCATED[place].0;
        if place < OWN {
            // No other thread writes it.
            counter.store(counter.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        } else {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
        if !self.charged.get().is_null() {
            self.pending.set(self.pending.get() + bytes);
            if self.pending.get().abs() >= ACCOUNT_STEP {
                self.tell();
            }
        }
    }

    /// Adds the pending bytes to the account's counter.
    fn tell(&self) {
        let (charged, pending) = (self.charged.get(), self.pending.replace(0));
        if !charged.is_null() {
            // SAFETY: `Account::charge` puts it here for as long as it borrows the account, and
            // removes it however it ends.
            let counter = unsafe { &*charged };
            counter.fetch_add(pending, Ordering::Relaxed);
        }
    }

    /// Charges another account, and returns the one that was charged before.
    fn charge(&self, account: *const AtomicI64) -> *const AtomicI64 {
        self.tell();
        self.charged.replace(account)
    }
}

/// The alignment of plain blocks.
const PLAIN: usize = 16;

/// Returns the plain block for one of a wider alignment, which begins in it behind a number: how far
/// from the beginning it is. `None` where there is no block of that size.
fn around(layout: Layout) -> Option<Layout> {
    Layout::from_size_align(layout.size().checked_add(layout.align())?, PLAIN).ok()
}

/// Returns the place of the first address of an alignment that is behind the beginning of a plain
/// block.
fn offset(plain: *mut u8, align: usize) -> usize {
    align - plain.addr() % align
}

/// Returns the block within a plain one, and notes where it begins.
///
/// # Safety
/// The plain block is null, or one of [`around`] for a wider alignment.
unsafe fn within(plain: *mut u8, align: usize) -> *mut u8 {
    if plain.is_null() {
        return plain;
    }
    let offset = offset(plain, align);
    // SAFETY: both alignments are powers of two, so that the offset is a multiple of `PLAIN`, is not
    // 0, and is at most the alignment, which the plain block has more than what is within. A number
    // fits before it, and is aligned.
    unsafe {
        let block = plain.add(offset);
        block.cast::<usize>().sub(1).write(offset);
        block
    }
}

/// Returns how far a block is from the beginning of the plain one that it is within.
///
/// # Safety
/// The block comes from [`within`].
unsafe fn noted(block: *mut u8) -> usize {
    // SAFETY: `within` has written the number there.
    unsafe { block.cast::<usize>().sub(1).read() }
}

/// Returns a block of another size with what is in one of a wider alignment; null where there is no
/// room, and then the block stays as it is.
///
/// # Safety
/// Those of `realloc`, for a block of [`within`].
unsafe fn resized(block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let other = Layout::from_size_align(size, layout.align()).ok().and_then(around);
    let (Some(old), Some(other)) = (around(layout), other) else { return ptr::null_mut() };
    // SAFETY: the plain block is the system's, of this layout. What it keeps includes all that is
    // within, behind the old offset; the new offset leaves as much room behind it.
    unsafe {
        let before = noted(block);
        let plain = System.realloc(block.sub(before), old, other.size());
        if !plain.is_null() {
            let after = offset(plain, layout.align());
            if after != before {
                ptr::copy(plain.add(before), plain.add(after), layout.size().min(size));
            }
        }
        within(plain, layout.align())
    }
}

/// The system's allocator, with counters.
#[derive(Debug, Default)]
pub struct Counting;

// SAFETY: every method is that of the system's allocator, with the caller's arguments and its
// result unchanged; for wider alignments, with those of a plain block around the caller's. Counting
// neither allocates nor unwinds: it adds to atomics and to thread-local cells with neither an
// initializer nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller obeys the rules of `alloc`.
        let allocated = unsafe {
            match (layout.align() > PLAIN, around(layout)) {
                (false, _) => System.alloc(layout),
                (true, Some(plain)) => within(System.alloc(plain), layout.align()),
                (true, None) => ptr::null_mut(),
            }
        };
        count_new(allocated, layout);
        allocated
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller obeys the rules of `alloc_zeroed`.
        let allocated = unsafe {
            match (layout.align() > PLAIN, around(layout)) {
                (false, _) => System.alloc_zeroed(layout),
                (true, Some(plain)) => within(System.alloc_zeroed(plain), layout.align()),
                (true, None) => ptr::null_mut(),
            }
        };
        count_new(allocated, layout);
        allocated
    }

    unsafe fn dealloc(&self, allocated: *mut u8, layout: Layout) {
        // SAFETY: the caller obeys the rules of `dealloc`, and its pointer comes from `System`, or from
        // `within`.
        unsafe {
            match (layout.align() > PLAIN, around(layout)) {
                (true, Some(plain)) => System.dealloc(allocated.sub(noted(allocated)), plain),
                _ => System.dealloc(allocated, layout),
            }
        }
        count(-signed(layout.size()));
    }

    unsafe fn realloc(&self, allocated: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller obeys the rules of `realloc`, and its pointer comes from `System`, or from
        // `within`.
        let moved = unsafe {
            match layout.align() > PLAIN {
                false => System.realloc(allocated, layout, size),
                true => resized(allocated, layout, size),
            }
        };
        if !moved.is_null() {
            count(signed(size) - signed(layout.size()));
        }
        moved
    }
}

fn count_new(allocated: *mut u8, layout: Layout) {
    if !allocated.is_null() {
        count(signed(layout.size()));
    }
}

/// Converts a size. Layouts have no more bytes than an `isize` can hold.
fn signed(bytes: usize) -> i64 {
    bytes as i64
}

fn count(bytes: i64) {
    THREAD.with(|thread| thread.count(bytes));
}

/// Returns the bytes that the process has allocated and not freed. Returns `None` when its
/// allocator does not count.
pub fn total() -> Option<u64> {
    let threads = THREADS.load(Ordering::Relaxed);
    let used = if threads <= OWN { threads } else { ALLOCATED.len() };
    let bytes: i64 = ALLOCATED[..used].iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum();
    // One thread's counter may be seen without that of another.
    (threads > 0).then(|| u64::try_from(bytes).unwrap_or(0))
}

/// Gives freed memory back to the system, if the process keeps more than so many bytes of it. A C
/// library keeps what is freed for what is allocated next, which may not fit where it lies: a process
/// that has had 600 MiB in small pieces once, and then in large ones, takes both.
///
/// Does nothing with another global allocator than [`Counting`], or with a C library other than
/// glibc.
pub fn give_back(kept: u64) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if let (Some(total), Some(resident)) = (total(), resident())
        && resident.saturating_sub(total) > kept
    {
        // SAFETY: this is safe at any time; it takes the allocator's locks by itself.
        unsafe { libc::malloc_trim(0) };
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = kept;
}

/// Returns the bytes of memory that the process takes, without what it maps of files.
#[cfg(target_os = "linux")]
fn resident() -> Option<u64> {
    // proc(5): pages of the whole, then resident ones, then those of files.
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = pages.split(' ').skip(1).map(|pages| pages.parse::<u64>().ok());
    let (resident, shared) = (pages.next()??, pages.next()??);
    // SAFETY: this only reads a constant of the system.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    Some(resident.saturating_sub(shared) * page)
}

/// The bytes that somebody has allocated.
#[derive(Debug, Default)]
pub struct Account(AtomicI64);

impl Account {
    /// Runs a function and charges its allocations on this thread to the account. Another account
    /// may be charged within it.
    pub fn charge<T>(&self, run: impl FnOnce() -> T) -> T {
        let _outer = Outer(THREAD.with(|thread| thread.charge(&self.0)));
        run()
    }

    pub fn bytes(&self) -> u64 {
        u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Deducts bytes that now belong to somebody else.
    pub fn hand_over(&self, bytes: u64) {
        let _all = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |charged| {
            Some(charged - charged.max(0).min(i64::try_from(bytes).unwrap_or(i64::MAX)))
        });
    }

    /// Sets the account to zero.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Charges the previous account again when it is dropped.
struct Outer(*const AtomicI64);

impl Drop for Outer {
    fn drop(&mut self) {
        THREAD.with(|thread| thread.charge(self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Barrier, Mutex};

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    const LARGE: usize = 32 << 20;

    /// Lets one test run at a time, because the total is that of the process.
    static ALONE: Mutex<()> = Mutex::new(());

    fn within(bytes: u64, expected: usize) -> bool {
        bytes.abs_diff(expected as u64) < 4 << 20
    }

    #[test]
    fn what_is_allocated_is_counted_until_it_is_given_back() {
        let _alone = ALONE.lock();
        let before = total().unwrap();
        let mut bytes = black_box(vec![1_u8; LARGE]);
        assert!(within(total().unwrap() - before, LARGE));
        bytes.resize(2 * LARGE, 2);
        bytes.shrink_to_fit();
        assert!(within(total().unwrap() - before, 2 * LARGE));
        // Another thread frees it.
        std::thread::spawn(move || drop(black_box(bytes))).join().unwrap();
        let zeroed = black_box(vec![0_u8; LARGE]);
        assert!(within(total().unwrap() - before, LARGE));
        drop(zeroed);
        assert!(within(total().unwrap().saturating_sub(before), 0));
    }

    #[test]
    fn blocks_of_wide_alignments_keep_what_is_in_them() {
        for align in [8, 16, 32, 64, 128, 4096] {
            let layout = |size: usize| Layout::from_size_align(size, align).unwrap();
            let mut size = 100;
            // SAFETY: the layouts are those of the block, and no size is 0.
            let mut block = unsafe { std::alloc::alloc_zeroed(layout(size)) };
            for (step, other) in [100_000, 3, 5_000_000, 70_000, 70_001, 1, 300].into_iter().enumerate() {
                // SAFETY: so many bytes are in the block.
                let bytes = unsafe { std::slice::from_raw_parts_mut(block, size) };
                assert_eq!(bytes.as_ptr().addr() % align, 0);
                let before = if step == 0 { 0 } else { step as u8 };
                let kept = if step == 0 { size } else { 1 };
                assert!(bytes[..kept].iter().all(|byte| *byte == before), "{align} {size}");
                bytes.fill(step as u8 + 1);
                let (first, last) = (size, size.min(other));
                // SAFETY: as above.
                block = unsafe { std::alloc::realloc(block, layout(first), other) };
                size = other;
                // SAFETY: as above.
                let bytes = unsafe { std::slice::from_raw_parts(block, last) };
                assert!(bytes.iter().all(|byte| *byte == step as u8 + 1), "{align} {other}");
            }
            // SAFETY: as above.
            unsafe { std::alloc::dealloc(block, layout(size)) };
        }
        assert!(around(Layout::from_size_align(isize::MAX as usize - 63, 64).unwrap()).is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn freed_blocks_of_wide_alignments_are_used_again() {
        let _alone = ALONE.lock();
        let layout = Layout::from_size_align(128 << 10, 64).unwrap();
        let filled = || {
            // SAFETY: the size is not 0, and all of the block is written.
            unsafe {
                let block = std::alloc::alloc(layout);
                block.write_bytes(1, layout.size());
                block
            }
        };
        // SAFETY: each block is one of that layout.
        let free = |block: *mut u8| unsafe { std::alloc::dealloc(block, layout) };
        let before = resident().unwrap();
        let kept: Vec<*mut u8> = (0..1_000)
            .map(|_| {
                let passing = filled();
                let kept = filled();
                free(passing);
                kept
            })
            .collect();
        let taken = resident().unwrap() - before;
        kept.iter().copied().for_each(free);
        assert!(taken < 1_000 * layout.size() as u64 * 5 / 4, "{taken}");
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn freed_memory_goes_back_to_the_system() {
        let _alone = ALONE.lock();
        let mut pieces: Vec<Vec<u8>> = (0..100_000).map(|_| black_box(vec![1; 1_000])).collect();
        let filled = resident().unwrap();
        // What stays at the end keeps the C library from giving back what lies before it.
        pieces.swap(0, 99_999);
        pieces.truncate(1);
        give_back(1 << 40);
        assert!(resident().unwrap() + (16 << 20) > filled, "so much may be kept");
        give_back(16 << 20);
        assert!(resident().unwrap() + (64 << 20) < filled);
    }

    #[test]
    fn threads_that_end_leave_nothing() {
        let _alone = ALONE.lock();
        let before = total().unwrap();
        for _ in 0..20 {
            let threads: Vec<_> =
                (0..100).map(|_| std::thread::spawn(|| drop(black_box(vec![0_u8; 50_000])))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
        assert!(within(total().unwrap().saturating_sub(before), 0));
    }

    #[test]
    fn an_account_is_charged_within_and_not_beside() {
        let _alone = ALONE.lock();
        let (account, inner) = (Account::default(), Account::default());
        let beside = black_box(vec![0_u8; LARGE]);
        let (kept, other) = account.charge(|| {
            drop(black_box(vec![0_u8; LARGE]));
            let other = inner.charge(|| black_box(vec![0_u8; 3 * LARGE]));
            // Small allocations count, too.
            (black_box((0..LARGE >> 10).map(|_| vec![0_u8; 1 << 10]).collect::<Vec<_>>()), other)
        });
        assert!(within(account.bytes(), LARGE + (LARGE >> 10) * size_of::<Vec<u8>>()), "{account:?}");
        assert!(within(inner.bytes(), 3 * LARGE), "{inner:?}");
        drop(beside);
        account.charge(|| drop(kept));
        assert!(within(account.bytes(), 0), "{account:?}");
        inner.hand_over(LARGE as u64);
        assert!(within(inner.bytes(), 2 * LARGE), "{inner:?}");
        inner.hand_over(u64::MAX);
        assert_eq!(inner.bytes(), 0);
        drop(other);
    }

    #[test]
    fn a_panic_ends_a_charge() {
        let _alone = ALONE.lock();
        let account = Account::default();
        let panicked = catch_unwind(AssertUnwindSafe(|| account.charge(|| panic!("as it must"))));
        assert!(panicked.is_err());
        let charged = account.bytes();
        let beside = black_box(vec![0_u8; LARGE]);
        assert_eq!(account.bytes(), charged);
        drop(beside);
    }

    #[test]
    fn threads_are_charged_to_one_account_together() {
        let _alone = ALONE.lock();
        let (account, all) = (Account::default(), Barrier::new(4));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let bytes = account.charge(|| black_box(vec![0_u8; LARGE]));
                    all.wait();
                    assert!(within(account.bytes(), 4 * LARGE));
                    all.wait();
                    account.charge(|| drop(bytes));
                });
            }
        });
        assert!(within(account.bytes(), 0));
    }
}
