//! What a power cut can leave on a disk. Pure: a disk's blocks, the log of what was done to it, and the losses.
//!
//! A disk answers a write once it is in its cache, and keeps its promise only when it answers a flush. Until then it has
//! put any of the writes down, or none, or only a part of one, in any order.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

/// What file systems write at once.
const BLOCK: usize = 4096;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

type Block = Arc<[u8; BLOCK]>;

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
        let mut block = [0; BLOCK];
        for number in 0..size / BLOCK as u64 {
            file.read_exact(&mut block)?;
            image.set(number, Arc::new(block));
        }
        Ok(image)
    }

    /// Makes `path` a file of these contents.
    pub(crate) fn store(&self, path: &Path) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        file.set_len(self.size)?;
        for (number, block) in &self.blocks {
            file.write_all_at(&block[..], number * BLOCK as u64)?;
        }
        Ok(())
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    fn block(&self, number: u64) -> Block {
        self.blocks.get(&number).map_or_else(|| Arc::new([0; BLOCK]), Arc::clone)
    }

    fn set(&mut self, number: u64, block: Block) {
        let old = if block.iter().all(|byte| *byte == 0) {
            self.blocks.remove(&number)
        } else {
            self.digest ^= digest(number, &block);
            self.blocks.insert(number, block)
        };
        if let Some(old) = old {
            self.digest ^= digest(number, &old);
        }
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        for part in parts(offset, into.len()) {
            into[part.of_bytes].copy_from_slice(&self.block(part.number)[part.of_block]);
        }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for part in parts(offset, bytes.len()) {
            let mut block = *self.block(part.number);
            block[part.of_block].copy_from_slice(&bytes[part.of_bytes]);
            self.set(part.number, Arc::new(block));
        }
    }
}

fn digest(number: u64, block: &Block) -> u64 {
    let mut hasher = DefaultHasher::new();
    (number, &block[..]).hash(&mut hasher);
    hasher.finish()
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
    /// By block: its versions since the last flush, oldest first.
    unflushed: BTreeMap<u64, Vec<Block>>,
}

impl Cached {
    pub(crate) fn new(durable: Image) -> Self {
        Self { durable, unflushed: BTreeMap::new() }
    }

    pub(crate) fn happens<M>(&mut self, event: &Event<M>) {
        match event {
            Event::Write { offset, bytes } => {
                for part in parts(*offset, bytes.len()) {
                    let versions = self.unflushed.entry(part.number).or_default();
                    let newest = versions.last().map_or_else(|| self.durable.block(part.number), Arc::clone);
                    let mut block = *newest;
                    block[part.of_block].copy_from_slice(&bytes[part.of_bytes]);
                    versions.push(Arc::new(block));
                }
            }
            Event::WriteThrough { offset, bytes } => {
                self.durable.write(*offset, bytes);
                for part in parts(*offset, bytes.len()) {
                    for version in self.unflushed.get_mut(&part.number).into_iter().flatten() {
                        let mut block = **version;
                        block[part.of_block.clone()].copy_from_slice(&bytes[part.of_bytes.clone()]);
                        *version = Arc::new(block);
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
            match loss {
                Loss::All => {}
                Loss::Nothing => image.set(*number, Arc::clone(versions.last().unwrap())),
                Loss::Blocks => {
                    if let Some(version) = versions.get(random.below(versions.len() + 1)) {
                        image.set(*number, Arc::clone(version));
                    }
                }
                Loss::Sectors => {
                    let mut block = *image.block(*number);
                    for at in (0..BLOCK).step_by(SECTOR) {
                        if let Some(version) = versions.get(random.below(versions.len() + 1)) {
                            block[at..at + SECTOR].copy_from_slice(&version[at..at + SECTOR]);
                        }
                    }
                    image.set(*number, Arc::new(block));
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
