//! What a binary needs to run: the loader that an ELF file names, if it names one.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// A program header that names the loader.
const PT_INTERP: u32 = 3;
/// Longest path of a loader that is taken for one.
const PATH_LIMIT: u64 = 4096;

/// The loader of a 64-bit little-endian ELF file; none for a static one, and for what is no such file.
pub(super) fn loader(program: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(program)?;
    let mut head = [0; 64];
    match file.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let (table, size, count) = (long(&head, 32), short(&head, 54), short(&head, 56));
    for n in 0..u64::from(count) {
        let mut entry = [0; 56];
        file.seek(SeekFrom::Start(table.saturating_add(n * u64::from(size))))?;
        file.read_exact(&mut entry)?;
        if word(&entry, 0) == PT_INTERP {
            let mut path = Vec::new();
            file.seek(SeekFrom::Start(long(&entry, 8)))?;
            file.take(long(&entry, 32).min(PATH_LIMIT)).read_to_end(&mut path)?;
            let text = String::from_utf8_lossy(&path);
            return Ok(Some(text.trim_end_matches('\0').to_owned()));
        }
    }
    Ok(None)
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|n| from.get(at + n).copied().unwrap_or_default())
}

fn short(from: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes(from, at))
}

fn word(from: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes(from, at))
}

fn long(from: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes(from, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_needs_no_loader() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        for text in [&b""[..], b"#!/bin/sh\n", &[0x7f; 100]] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(loader(&path).unwrap(), None);
        }
    }

    #[test]
    fn a_dynamic_program_names_its_loader_and_a_truncated_one_is_an_error() {
        // One program header, right after the file's, then the path.
        let mut elf = vec![0; 64 + 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        elf[64] = 3;
        elf[64 + 8] = 120;
        elf[64 + 32] = 10;
        elf.extend(b"/lib/ld.x\0");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, &elf).unwrap();
        assert_eq!(loader(&path).unwrap().as_deref(), Some("/lib/ld.x"));
        elf[64] = 1;
        std::fs::write(&path, &elf).unwrap();
        assert_eq!(loader(&path).unwrap(), None, "a static one");
        std::fs::write(&path, &elf[..100]).unwrap();
        loader(&path).unwrap_err();
    }
}
