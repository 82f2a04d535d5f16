//! The files that are applied: as bytes in a folder, and as a config that holds them packed.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use mcx::api::{API_VERSION, label};
use mcx::render::load::{self, Input};
use mcx::{api, render};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Where they lie on a node.
pub(crate) const FOLDER: &str = "/etc/big";

/// Some files of one size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files {
    pub(crate) count: usize,
    /// Bytes of each.
    pub(crate) size: usize,
    /// Another one, other bytes.
    pub(crate) edition: usize,
}

impl Files {
    /// 2,000 files, 200 MB.
    pub(crate) const BIG: Self = Self { count: 2000, size: 100_000, edition: 0 };
    /// As the cluster's bench has them.
    pub(crate) const MANY: Self = Self { count: 500, size: 20, edition: 0 };

    pub(crate) fn bytes(self, number: usize) -> Vec<u8> {
        let line = format!("setting {number:05} of edition {}\n", self.edition);
        line.bytes().cycle().take(self.size).collect()
    }

    pub(crate) fn name(number: usize) -> String {
        format!("{number:05}.conf")
    }

    /// In a folder of their own.
    pub(crate) fn write(self, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        fs::create_dir_all(folder)?;
        let each = (0..self.count).map(|number| {
            let path = folder.join(Self::name(number));
            fs::write(&path, self.bytes(number))?;
            Ok(path)
        });
        each.collect()
    }

    /// A source of pool `worker`, as JSON.
    pub(crate) fn source(self) -> anyhow::Result<String> {
        let files: anyhow::Result<Vec<Value>> = (0..self.count)
            .map(|number| {
                let mut packed = GzEncoder::new(Vec::new(), Compression::best());
                packed.write_all(&self.bytes(number))?;
                let packed = STANDARD.encode(packed.finish()?);
                Ok(json!({
                    "path": format!("{FOLDER}/{}", Self::name(number)),
                    "mode": 420,
                    "overwrite": true,
                    "contents": {"source": format!("data:;base64,{packed}"), "compression": "gzip"},
                }))
            })
            .collect();
        let source = json!({
            "apiVersion": API_VERSION,
            "kind": "MachineConfig",
            "metadata": {"name": "50-big", "labels": {label::ROLE: label::WORKER}},
            "spec": {"config": {"ignition": {"version": "3.4.0"}, "storage": {"files": files?}}},
        });
        Ok(source.to_string())
    }

    /// The config that it is rendered to.
    pub(crate) fn rendered(self) -> anyhow::Result<render::Rendered> {
        let bytes = self.source()?.into_bytes();
        let loaded = load::load(vec![Input { name: "source.json".to_owned(), bytes }]);
        let pool = loaded.known_pools().into_iter().find(|p| p.name() == api::label::WORKER);
        let outcome = render::render(&pool.context("there is no pool worker")?, &loaded.configs);
        outcome.rendered.with_context(|| format!("refused: {:?}", outcome.findings.first()))
    }
}
