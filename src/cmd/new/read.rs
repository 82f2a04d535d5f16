//! Plain files of this machine: one, standard input, or a folder with all below it.

use crate::render::items::Content;
use anyhow::{Context as _, bail};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A file as it was read.
pub(super) struct Plain {
    pub(super) bytes: Vec<u8>,
    /// Permission bits; none of standard input and of pipes.
    pub(super) mode: Option<u32>,
}

impl Plain {
    /// The file of this name, or standard input for `-`.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            let bytes = limited(std::io::stdin().lock(), "standard input")?;
            return Ok(Self { bytes, mode: None });
        }
        let shown = path.display().to_string();
        let failed = || format!("cannot read {shown}");
        let file = File::open(path).with_context(failed)?;
        let about = file.metadata().with_context(failed)?;
        if about.is_dir() {
            bail!("{shown} is a folder; give a file, or use mcx new tree");
        }
        let mode = about.is_file().then(|| about.permissions().mode() & 0o7777);
        Ok(Self { bytes: limited(file, &shown)?, mode })
    }
}

/// Standard input can be read only once.
pub(super) fn once(paths: &[PathBuf]) -> anyhow::Result<()> {
    if paths.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("standard input can be read only once; give - once");
    }
    Ok(())
}

/// All files below a folder, by path as a node has it, in byte order.
pub(super) fn tree(folder: &Path) -> anyhow::Result<Vec<(String, Plain)>> {
    let about = fs::metadata(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    if !about.is_dir() {
        bail!("{} is no folder; for one file use mcx new file", folder.display());
    }
    let mut found = Vec::new();
    below(folder, "", &mut found)?;
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

fn below(folder: &Path, at: &str, found: &mut Vec<(String, Plain)>) -> anyhow::Result<()> {
    let failed = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let path = entry.path();
        let shown = path.display();
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            bail!("{shown}: the name is not UTF-8 text; rename it");
        };
        let kind = entry.file_type().with_context(|| format!("cannot read {shown}"))?;
        let to = format!("{at}/{name}");
        if kind.is_dir() {
            below(&path, &to, found)?;
        } else if kind.is_symlink() {
            let instead = if to.starts_with("/etc/systemd/system/") {
                "use --enable UNIT or --mask UNIT for what it does"
            } else {
                "put the file itself into its place"
            };
            bail!("{shown} is a link; a MachineConfig has no links: {instead}");
        } else if kind.is_file() {
            found.push((to, Plain::read(&path)?));
        } else {
            let what = match () {
                () if kind.is_socket() => "a socket",
                () if kind.is_fifo() => "a named pipe",
                () => "a device",
            };
            bail!("{shown} is {what}; a MachineConfig has only files: remove it from the tree");
        }
    }
    Ok(())
}

/// All bytes, up to what a config can hold.
fn limited(reader: impl Read, shown: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(Content::FILE_LIMIT + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {shown}"))?;
    if bytes.len() as u64 > Content::FILE_LIMIT {
        bail!("{shown} is larger than {} MiB, which no config can hold", Content::FILE_LIMIT >> 20);
    }
    Ok(bytes)
}
