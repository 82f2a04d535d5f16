//! What `-f` and `-R` name, by kubectl's rules: a file, a folder's `*.json`, `*.yaml` and `*.yml`, or `-`.

use crate::render::load::{INPUT_LIMIT, Input};
use anyhow::{Context as _, bail};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// What to say of an input that holds nothing of ours.
pub const NOTHING: &str = "there is no MachineConfig, MachineConfigPool or MachineConfiguration";

/// Flags for what is read.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// File or folder with the objects, or - for standard input; may be given more than once
    #[arg(short, long = "filename", value_name = "FILE|DIR|-", required = true)]
    pub filename: Vec<PathBuf>,
    /// Read folders with all that is below them
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

impl Args {
    /// Reads all that is named, in the order in which it is named, folders by byte order of their paths.
    pub fn read(&self) -> anyhow::Result<Vec<Input>> {
        let mut inputs = Vec::new();
        let mut stdin_read = false;
        for path in &self.filename {
            if path.as_os_str() == "-" {
                if stdin_read {
                    bail!("standard input can be read only once; give -f - once");
                }
                stdin_read = true;
                let bytes = limited(std::io::stdin().lock()).context("cannot read standard input")?;
                inputs.push(Input { name: "-".to_owned(), bytes });
                continue;
            }
            if path.to_str().is_some_and(|p| p.starts_with("http://") || p.starts_with("https://")) {
                bail!("{} is a URL; fetch it first, as in curl URL | mcx … -f -", path.display());
            }
            for file in self.files(path)? {
                inputs.push(one(&file)?);
            }
        }
        Ok(inputs)
    }

    /// The file itself, whatever its name, or the files of a folder.
    fn files(&self, path: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let about = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if !about.is_dir() {
            return Ok(vec![path.to_owned()]);
        }
        let mut found = Vec::new();
        self.folder(path, &mut found)?;
        if found.is_empty() {
            let hint = if self.recursive { "" } else { "; -R reads the folders in it, too" };
            bail!("{} holds no file that ends in .json, .yaml or .yml{hint}", path.display());
        }
        Ok(found)
    }

    fn folder(&self, folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
        let failed = || format!("cannot read {}", folder.display());
        let mut entries =
            fs::read_dir(folder).with_context(failed)?.collect::<Result<Vec<_>, _>>().with_context(failed)?;
        // A folder lists its files in any order; what is printed must not depend on it.
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let kind = entry.file_type().with_context(|| format!("cannot read {}", path.display()))?;
            if kind.is_dir() {
                // As kubectl, links to folders are not followed: they could lead in a circle.
                if self.recursive {
                    self.folder(&path, found)?;
                }
            } else if is_object_file(&path) && path.is_file() {
                found.push(path);
            }
        }
        Ok(())
    }
}

fn is_object_file(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "json" || e == "yaml" || e == "yml")
}

fn one(path: &Path) -> anyhow::Result<Input> {
    let failed = || format!("cannot read {}", path.display());
    let bytes = File::open(path).and_then(limited).with_context(failed)?;
    Ok(Input { name: path.display().to_string(), bytes })
}

/// All bytes, or just enough to see that there are too many: a device or a pipe has no end.
fn limited(reader: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(INPUT_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &Args, root: &Path) -> Vec<String> {
        let inputs = args.read().unwrap();
        inputs.iter().map(|i| i.name.strip_prefix(&format!("{}/", root.display())).unwrap().to_owned()).collect()
    }

    #[test]
    fn a_folder_is_read_as_kubectl_reads_it() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("below")).unwrap();
        for name in ["b.yaml", "a.yml", "c.json", "README.md", "d.yaml~", "below/e.yaml"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        let args = |recursive| Args { filename: vec![root.path().to_owned()], recursive };
        assert_eq!(names(&args(false), root.path()), ["a.yml", "b.yaml", "c.json"]);
        assert_eq!(names(&args(true), root.path()), ["a.yml", "b.yaml", "below/e.yaml", "c.json"]);
        let by_name = Args { filename: vec![root.path().join("README.md")], recursive: false };
        assert_eq!(names(&by_name, root.path()), ["README.md"], "a file that is named is read, whatever it is called");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            (root.path().join("none.yaml"), "none.yaml"),
            (root.path().to_owned(), "-R reads"),
            ("https://x.example/a.yaml".into(), "fetch it first"),
        ] {
            let error = Args { filename: vec![path], recursive: false }.read().unwrap_err();
            assert!(format!("{error:#}").contains(text), "{error:#}");
        }
    }

    #[test]
    fn an_endless_input_is_read_only_as_far_as_the_limit() {
        let bytes = limited(std::io::repeat(b' ')).unwrap();
        assert_eq!(bytes.len(), INPUT_LIMIT + 1);
    }
}
