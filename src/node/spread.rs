//! The same work on many items, by several threads: files of a config are many, and each waits for the disk.

use super::host::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// From this number of items on there are threads. Below, threads cost more than they save, and what is done is done in one
/// order.
pub(super) const MANY: usize = 64;

/// The results of `work` on each item, in order; or the error of the first item, in order, that has one. After an error
/// no further item is begun.
pub(super) fn spread<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    if items.len() < MANY || threads < 2 {
        return items.iter().map(work).collect();
    }
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done: Mutex<Vec<(usize, Result<R, Error>)>> = Mutex::new(Vec::with_capacity(items.len()));
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
        started
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| Error::Other("work on the disk broke down".into())))
    })?;
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
        let twice = spread(&items, 8, |n| Ok(2 * n)).unwrap();
        assert_eq!(twice, items.iter().map(|n| 2 * n).collect::<Vec<_>>());
        for wrong in [0, 100, 639] {
            let error = spread(&items, 8, |n| if *n >= wrong { Err(Error::Other(n.to_string())) } else { Ok(()) });
            assert_eq!(error.unwrap_err().to_string(), wrong.to_string());
        }
    }

    #[test]
    fn after_an_error_nothing_more_is_begun() {
        let items: Vec<usize> = (0..100_000).collect();
        let begun = AtomicUsize::new(0);
        let result = spread(&items, 4, |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            Err::<(), _>(Error::Other("no".into()))
        });
        assert!(result.is_err());
        assert!(begun.into_inner() <= 4);
    }
}
