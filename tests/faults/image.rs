//! What a power cut can leave on a disk. Pure: a disk's blocks, the log of what was done to it, and the losses.
//!
//! A disk answers a write once it is in its cache, and keeps its promise only when it answers a flush. Until then it has
//! put any of the writes down, or none, or only a part of one, in any order.

use nix::fcntl::{FallocateFlags, fallocate};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

/// What file systems write at once.
const BLOCK: usize = 4096;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

const ZEROS: [u8; BLOCK] = [0; BLOCK];

/// What a block holds, made once for all the disks that it is a part of.
type Block = Arc<Contents>;

struct Contents {
    bytes: [u8; BLOCK],
    digest: u64,
}

fn block(bytes: &[u8; BLOCK]) -> Block {
    let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    let digest = words.fold(0, |digest: u64, word| (digest.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    Arc::new(Contents { bytes: *bytes, digest })
}

/// The contents of a disk. Cheap to copy: blocks are shared, and those of zeros are not kept.
#[derive(Clone)]
pub(crate) struct Image {
    size: u64,
    blocks: BTreeMap<u64, Block>,
    /// Of all blocks, whatever their order: two disks of the same contents have the same.
    digest: u64,
}

impl Image {
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut image = Self { size, blocks: BTreeMap::new(), digest: 0 };
        let mut bytes = ZEROS;
        for number in 0..size / BLOCK as u64 {
            file.read_exact(&mut bytes)?;
            if bytes != ZEROS {
                image.set(number, block(&bytes));
            }
        }
        Ok(image)
    }

    /// Puts these contents on a device of this size, in place of what it held.
    pub(crate) fn store(&self, device: &File) -> io::Result<()> {
        let whole = i64::try_from(self.size).unwrap();
        fallocate(device, FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, whole)?;
        let mut row: Vec<u8> = Vec::new();
        let mut blocks = self.blocks.iter().peekable();
        while let Some((number, contents)) = blocks.next() {
            row.extend_from_slice(&contents.bytes);
            let is_next = blocks.peek().is_some_and(|(next, _)| **next == number + 1);
            if !is_next {
                device.write_all_at(&row, (number + 1) * BLOCK as u64 - row.len() as u64)?;
                row.clear();
            }
        }
        device.sync_all()
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    fn bytes(&self, number: u64) -> [u8; BLOCK] {
        self.blocks.get(&number).map_or(ZEROS, |contents| contents.bytes)
    }

    fn set(&mut self, number: u64, new: Block) {
        let digest = |contents: &Block| Random::new(number ^ contents.digest).next();
        let old = if new.bytes == ZEROS {
            self.blocks.remove(&number)
        } else {
            self.digest ^= digest(&new);
            self.blocks.insert(number, new)
        };
        if let Some(old) = old {
            self.digest ^= digest(&old);
        }
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        for part in parts(offset, into.len()) {
            into[part.of_bytes].copy_from_slice(&self.bytes(part.number)[part.of_block]);
        }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for part in parts(offset, bytes.len()) {
            let mut new = self.bytes(part.number);
            new[part.of_block].copy_from_slice(&bytes[part.of_bytes]);
            self.set(part.number, block(&new));
        }
    }
}

/// The part of a range that is in one block.
struct Part {
    number: u64,
    of_block: std::ops::Range<usize>,
    of_bytes: std::ops::Range<usize>,
}

fn parts(offset: u64, size: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let begin = usize::try_from(at % BLOCK as u64).unwrap();
        let count = (BLOCK - begin).min(size - done);
        let part = Part { number: at / BLOCK as u64, of_block: begin..begin + count, of_bytes: done..done + count };
        done += count;
        (count > 0).then_some(part)
    })
}

/// What happened to a disk, and beside it.
#[derive(Clone)]
pub(crate) enum Event<M> {
    /// A write that was answered.
    Write { offset: u64, bytes: Vec<u8> },
    /// A write that was put down before it was answered.
    WriteThrough { offset: u64, bytes: Vec<u8> },
    /// All writes until now are put down.
    Flush,
    /// Something else that happened now.
    Mark(M),
}

/// What is left of the writes that were not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// None of them.
    All,
    /// Every one, as when only the program is killed.
    Nothing,
    /// Of each block any of its versions, or the old one.
    Blocks,
    /// Of each sector any of its versions, or the old one.
    Sectors,
}

impl Loss {
    pub(crate) const EACH: [Self; 4] = [Self::All, Self::Nothing, Self::Blocks, Self::Sectors];
}

/// A disk with its cache.
pub(crate) struct Cached {
    durable: Image,
    /// The block that is never torn.
    superblock: u64,
    /// By block: its versions since the last flush, oldest first.
    unflushed: BTreeMap<u64, Vec<Block>>,
}

impl Cached {
    pub(crate) fn new(durable: Image, superblock: u64) -> Self {
        Self { durable, superblock, unflushed: BTreeMap::new() }
    }

    pub(crate) fn happens<M>(&mut self, event: &Event<M>) {
        match event {
            Event::Write { offset, bytes } => {
                for part in parts(*offset, bytes.len()) {
                    let versions = self.unflushed.entry(part.number).or_default();
                    let mut new = versions.last().map_or_else(|| self.durable.bytes(part.number), |last| last.bytes);
                    new[part.of_block].copy_from_slice(&bytes[part.of_bytes]);
                    versions.push(block(&new));
                }
            }
            Event::WriteThrough { offset, bytes } => {
                self.durable.write(*offset, bytes);
                for part in parts(*offset, bytes.len()) {
                    for version in self.unflushed.get_mut(&part.number).into_iter().flatten() {
                        let mut new = version.bytes;
                        new[part.of_block.clone()].copy_from_slice(&bytes[part.of_bytes.clone()]);
                        *version = block(&new);
                    }
                }
            }
            Event::Flush => {
                for (number, versions) in std::mem::take(&mut self.unflushed) {
                    self.durable.set(number, Arc::clone(versions.last().unwrap()));
                }
            }
            Event::Mark(_) => {}
        }
    }

    /// What the disk holds when the power comes back. Of the random losses `seed` chooses one.
    pub(crate) fn cut(&self, loss: Loss, seed: u64) -> Image {
        let mut image = self.durable.clone();
        let mut random = Random::new(seed);
        for (number, versions) in &self.unflushed {
            let loss = if *number == self.superblock && loss == Loss::Sectors { Loss::Blocks } else { loss };
            match loss {
                Loss::All => {}
                Loss::Nothing => image.set(*number, Arc::clone(versions.last().unwrap())),
                Loss::Blocks => {
                    if let Some(version) = versions.get(random.below(versions.len() + 1)) {
                        image.set(*number, Arc::clone(version));
                    }
                }
                Loss::Sectors => {
                    let mut torn = image.bytes(*number);
                    for at in (0..BLOCK).step_by(SECTOR) {
                        if let Some(version) = versions.get(random.below(versions.len() + 1)) {
                            torn[at..at + SECTOR].copy_from_slice(&version.bytes[at..at + SECTOR]);
                        }
                    }
                    image.set(*number, block(&torn));
                }
            }
        }
        image
    }
}

/// Numbers that look random and are the same for the same seed (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }
}
