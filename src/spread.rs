//! The same work on many items, by several threads: files of a config are many, and each waits for the disk or a processor.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// From this number of items on there are threads. Below, threads cost more than they save, and what is done is done in one
/// order.
pub(crate) const MANY: usize = 64;

/// How many threads keep all processors busy. The kernel is asked, and files are read: not for every little thing.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The results of `work` on each item, in order; or the error of the first item, in order, that has one. After an error
/// no further item is begun.
pub(crate) fn spread<T: Sync, R: Send, E: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    if items.len() < MANY || threads < 2 {
        return items.iter().map(work).collect();
    }
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done: Mutex<Vec<(usize, Result<R, E>)>> = Mutex::new(Vec::with_capacity(items.len()));
    let one = || {
        while !is_over.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = work(item);
            is_over.fetch_or(result.is_err(), Ordering::Relaxed);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        }
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        for thread in started {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_the_first_error_counts() {
        let items: Vec<usize> = (0..10 * MANY).collect();
        let twice = spread(&items, 8, |n| Ok::<_, ()>(2 * n)).unwrap();
        assert_eq!(twice, items.iter().map(|n| 2 * n).collect::<Vec<_>>());
        for wrong in [0, 100, 639] {
            let error = spread(&items, 8, |n| if *n >= wrong { Err(n.to_string()) } else { Ok(()) });
            assert_eq!(error.unwrap_err(), wrong.to_string());
        }
    }

    #[test]
    fn after_an_error_nothing_more_is_begun() {
        let items: Vec<usize> = (0..100_000).collect();
        let begun = AtomicUsize::new(0);
        let result = spread(&items, 4, |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            Err::<(), _>("no")
        });
        assert!(result.is_err());
        assert!(begun.into_inner() <= 4);
    }
}
