//! The lists of waiting threads of `replacements/parking_lot_core`, below the locks of parking_lot.

use parking_lot::{Condvar, Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: usize = 8;

/// Runs something on several threads, and waits for all of them.
fn on_threads(run: impl Fn(usize) + Send + Sync + 'static) {
    let run = Arc::new(run);
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let run = run.clone();
            thread::spawn(move || run(number))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn one_thread_has_a_lock_at_a_time() {
    let (count, table) = (Arc::new(Mutex::new(0_u64)), Arc::new(RwLock::new((0_u64, 0_u64))));
    let (counted, written) = (count.clone(), table.clone());
    on_threads(move |number| {
        for round in 0..20_000 {
            let mut count = counted.lock();
            *count += 1;
            if round % 64 == 0 {
                // Others wait meanwhile.
                thread::yield_now();
            }
            drop(count);
            if round % 8 == number {
                let mut both = written.write();
                both.0 += 1;
                thread::yield_now();
                both.1 += 1;
            } else {
                let both = written.read();
                assert_eq!(both.0, both.1);
            }
        }
    });
    assert_eq!(*count.lock(), 20_000 * THREADS as u64);
    assert_eq!(*table.read(), (2_500 * THREADS as u64, 2_500 * THREADS as u64));
}

#[test]
fn threads_are_told_of_a_condition_one_by_one_and_all_together() {
    let waiting = Arc::new((Mutex::new(0_usize), Condvar::new()));
    let through = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (waiting, through) = (waiting.clone(), through.clone());
            thread::spawn(move || {
                let mut tickets = waiting.0.lock();
                while *tickets == 0 {
                    waiting.1.wait(&mut tickets);
                }
                *tickets -= 1;
                through.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    let until = |count: usize| {
        let since = Instant::now();
        while through.load(Ordering::SeqCst) < count {
            assert!(since.elapsed() < Duration::from_secs(60), "a thread is not woken up");
            thread::sleep(Duration::from_millis(1));
        }
    };
    for given in 1..=2 {
        *waiting.0.lock() += 1;
        waiting.1.notify_one();
        until(given);
    }
    *waiting.0.lock() += THREADS - 2;
    waiting.1.notify_all();
    until(THREADS);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(!waiting.1.notify_one());
}

#[test]
fn who_waits_for_a_time_gives_up_then_and_is_in_no_list() {
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock();
    let other = lock.clone();
    let waits = thread::spawn(move || {
        let since = Instant::now();
        let is_locked = other.try_lock_for(Duration::from_millis(50)).is_some();
        (is_locked, since.elapsed())
    });
    let (is_locked, took) = waits.join().unwrap();
    assert!(!is_locked && took >= Duration::from_millis(50));
    drop(held);
    assert!(lock.try_lock().is_some());
    let (condition, mut guard) = (Condvar::new(), lock.lock());
    for _ in 0..3 {
        assert!(condition.wait_for(&mut guard, Duration::from_millis(5)).timed_out());
    }
    // Many give up while others are woken up.
    drop(guard);
    let both = Arc::new((Mutex::new(0_u32), Condvar::new()));
    let of_threads = both.clone();
    on_threads(move |number| {
        for round in 0..500_u64 {
            let mut count = of_threads.0.lock();
            *count += 1;
            match number % 2 {
                0 => {
                    let _either = of_threads.1.wait_for(&mut count, Duration::from_micros(round % 50));
                }
                _ => {
                    of_threads.1.notify_all();
                }
            }
        }
    });
    assert_eq!(*both.0.lock(), 500 * THREADS as u32);
}
