//! Made-up clusters to measure with: the same seed gives the same bytes, everywhere.

use mcx::api::{API_VERSION, annotation, label};
use serde_json::{Value, json};

/// The files of each source.
pub(crate) const FILES: usize = 20;

/// Numbers that look random: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A text of a configuration file, as a `data:` URL.
    fn contents(&mut self) -> String {
        let lines = (0..10).map(|line| format!("key{line}%20%3D%20{:016x}%0A", self.next()));
        format!("data:,{}", lines.collect::<String>())
    }
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn source(name: &str, role: &str, config: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {label::ROLE: role}},
        "spec": {"config": config},
    })
}

/// A `List` of `count` sources of pool `worker`, each of [`FILES`] files, as JSON.
///
/// The files lie at `paths` paths, one after the other: later sources replace what earlier ones say of a path.
pub(crate) fn worker(count: usize, paths: usize) -> String {
    let mut random = Random(1);
    let sources = (0..count).map(|number| {
        let files: Vec<Value> = (0..FILES)
            .map(|file| {
                let path = (number * FILES + file) % paths;
                json!({
                    "path": format!("/etc/application{:03}/conf.d/{:05}.conf", path % 100, path),
                    "mode": 420,
                    "overwrite": true,
                    "contents": {"source": random.contents()},
                })
            })
            .collect();
        let config = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": files}});
        source(&format!("{number:04}-source"), label::WORKER, &config)
    });
    list(&sources.collect::<Vec<_>>())
}

/// The names of `count` pools: `worker` and custom ones.
fn pool_names(count: usize) -> Vec<String> {
    let custom = (1..count).map(|number| format!("pool{number:02}"));
    std::iter::once(label::WORKER.to_owned()).chain(custom).collect()
}

/// A cluster of `pools` pools and 50 sources, and the same with one more unit for all of them, as JSON.
pub(crate) fn states(pools: usize) -> (String, String) {
    let mut random = Random(2);
    let names = pool_names(pools);
    let mut objects: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({
                "apiVersion": API_VERSION,
                "kind": "MachineConfigPool",
                "metadata": {"name": name},
                "spec": {
                    "maxUnavailable": 1,
                    "machineConfigSelector": {"matchExpressions": [
                        {"key": label::ROLE, "operator": "In", "values": [label::WORKER, name]},
                    ]},
                    "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}},
                },
            })
        })
        .collect();
    for number in 0..50 {
        let files: Vec<Value> = (0..FILES)
            .map(|file| {
                let path = format!("/etc/application{number}/{file}.conf");
                json!({"path": path, "mode": 420, "contents": {"source": random.contents()}})
            })
            .collect();
        let config = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": files}});
        objects.push(source(&format!("{number:02}-source"), &names[number % names.len()], &config));
    }
    let before = list(&objects);
    let text = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    let unit = json!({"name": "added.service", "enabled": true, "contents": text});
    let config = json!({"ignition": {"version": "3.4.0"}, "systemd": {"units": [unit]}});
    objects.push(source("99-added", label::WORKER, &config));
    (before, list(&objects))
}

/// `count` nodes, spread evenly over `pools` (a pool's name and the config that its nodes have), as JSON.
pub(crate) fn nodes(count: usize, pools: &[(String, String)]) -> String {
    let nodes = (0..count).map(|number| {
        let (pool, config) = &pools[number % pools.len()];
        let created = format!("2026-01-01T{:02}:{:02}:{:02}Z", number / 3600 % 24, number / 60 % 60, number % 60);
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": format!("node{number:04}"),
                "uid": format!("uid-{number}"),
                "creationTimestamp": created,
                "labels": {label::NODE_ROLE_WORKER: "", format!("node-role.kubernetes.io/{pool}"): ""},
                "annotations": {
                    annotation::STATE: "Done",
                    annotation::CURRENT_CONFIG: config,
                    annotation::DESIRED_CONFIG: config,
                },
            },
            "spec": {},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    });
    list(&nodes.collect::<Vec<_>>())
}
