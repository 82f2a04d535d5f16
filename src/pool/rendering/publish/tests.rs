use super::*;
use crate::api::{MachineConfigSpec, shipped};
use crate::pool::caches::Unreadable;
use crate::pool::fake_api::FakeApi;
use http::Method;

const BASE: &str = "/apis/machineconfiguration.alauda.io/v1alpha1";

/// A leader's renderer over a fake API server; caches are what the server has.
struct Scene {
    api: FakeApi,
    leader: Leader,
    renderer: Renderer,
    world: World,
    objects: Objects,
}

fn config_path(name: &str) -> String {
    format!("{BASE}/machineconfigs/{name}")
}

fn pool_path(name: &str) -> String {
    format!("{BASE}/machineconfigpools/{name}")
}

impl Scene {
    fn new() -> Self {
        let api = FakeApi::default();
        for pool in shipped::pools() {
            api.state().put(&pool_path(pool.name()), serde_json::to_value(&pool).unwrap());
        }
        for source in shipped::sources() {
            api.state().put(&config_path(source.name()), serde_json::to_value(&source).unwrap());
        }
        let leader = api.leader("e1");
        let renderer = Renderer::new(Duration::ZERO, Duration::ZERO);
        Self { api, leader, renderer, world: World::default(), objects: Objects::default() }
    }

    fn source(&self, name: &str, text: &str) {
        let mut source = shipped::sources().remove(1);
        source.metadata.name = Some(name.to_owned());
        source.spec.config = Some(
            json!({
                "ignition": {"version": "3.4.0"},
                "storage": {"files": [{"path": "/etc/x", "mode": 420, "contents": {"source": format!("data:,{text}")}}]}
            })
            .into(),
        );
        self.api.state().put(&config_path(name), serde_json::to_value(&source).unwrap());
    }

    fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.api.state().objects[path].clone();
        change(&mut object);
        self.api.state().put(path, object);
    }

    /// Fills the caches.
    fn read(&mut self) {
        let state = self.api.state();
        self.world.pools.clear();
        self.world.nodes.clear();
        self.objects = Objects::default();
        for (path, object) in &state.objects {
            let name = path.rsplit('/').next().unwrap();
            if path.contains("/machineconfigpools/") {
                let pool: Arc<MachineConfigPool> = Arc::new(serde_json::from_value(object.clone()).unwrap());
                self.world.pools.insert(name.into(), Arc::clone(&pool));
                self.objects.pools.insert(name.to_owned(), pool);
            } else if path.contains("/machineconfigs/") {
                let config: MachineConfig = serde_json::from_value(object.clone()).unwrap();
                self.objects.configs.insert(name.to_owned(), Ok(Arc::new(config)));
            } else if path.contains("/nodes/") {
                let node: Node = serde_json::from_value(object.clone()).unwrap();
                self.world.nodes.insert(name.into(), Arc::new(NodeView::new(&node)));
            }
        }
        let rendered = self.objects.configs.values().flatten().filter(|c| c.is_rendered());
        self.world.rendered = rendered.map(|c| ConfigName::from(c.name())).collect();
    }

    /// Rounds until one writes nothing.
    async fn settle(&mut self) {
        for _ in 0..6 {
            self.api.state().writes.clear();
            self.round().await.unwrap();
            if self.api.state().writes.is_empty() {
                return;
            }
        }
        panic!("still writing: {:?}", self.api.state().writes);
    }

    async fn round(&mut self) -> Result<(), Error> {
        self.read();
        // A first look may begin a burst, which is over at the second with no settle time.
        for _ in 0..2 {
            self.renderer.observe(&mut self.world, &self.objects, Instant::now());
        }
        self.renderer.publish(&self.leader, &mut self.world, &self.objects).await
    }

    fn target(&self, pool: &str) -> String {
        let name = &self.api.state().objects[&pool_path(pool)]["spec"]["configuration"]["name"];
        name.as_str().unwrap_or_default().to_owned()
    }

    fn object(&self, path: &str) -> Option<Value> {
        self.api.state().objects.get(path).cloned()
    }

    fn node(&self, name: &str, desired: &str, current: &str) {
        let annotations = json!({annotation::DESIRED_CONFIG: desired, annotation::CURRENT_CONFIG: current});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}});
        self.api.state().put(&format!("/api/v1/nodes/{name}"), node);
    }
}

#[tokio::test]
async fn a_pool_gets_its_rendered_config_then_its_target_and_then_nothing_is_written() {
    let mut scene = Scene::new();
    scene.source("50-x", "one");
    scene.round().await.unwrap();
    let writes = scene.api.state().writes.clone();
    assert_eq!(writes.len(), 4, "{writes:?}");
    assert!(writes[0].starts_with("POST") && writes[1].starts_with("PATCH"), "the config first: {writes:?}");
    scene.settle().await;
    let pool = scene.object(&pool_path("worker")).unwrap();
    let target = &pool["spec"]["configuration"];
    let config = scene.object(&config_path(target["name"].as_str().unwrap())).unwrap();
    assert_eq!(config["metadata"]["ownerReferences"][0]["uid"], pool["metadata"]["uid"]);
    assert_eq!(config["metadata"]["ownerReferences"][0]["kind"], "MachineConfigPool", "R-176");
    let sources: Vec<&str> = target["source"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(sources, ["00-worker", "50-x"]);
    assert_eq!(target["source"][0]["kind"], "MachineConfig");
    assert_eq!(target["source"][0]["apiVersion"], API_VERSION);
}

#[tokio::test]
async fn r_019_the_list_of_sources_follows_although_the_hash_is_the_same() {
    let mut scene = Scene::new();
    scene.source("50-x", "one");
    scene.settle().await;
    let before = scene.target("worker");
    scene.source("60-same", "one");
    scene.api.state().objects.remove(&config_path("50-x"));
    scene.settle().await;
    assert_eq!(scene.target("worker"), before);
    let pool = scene.object(&pool_path("worker")).unwrap();
    assert_eq!(pool["spec"]["configuration"]["source"][1]["name"], "60-same");
}

#[tokio::test]
async fn an_edited_rendered_config_is_put_back_and_foreign_labels_are_left() {
    let mut scene = Scene::new();
    scene.source("50-x", "one");
    scene.settle().await;
    let path = config_path(&scene.target("worker"));
    let before = scene.object(&path).unwrap();
    scene.edit(&path, |o| {
        o["spec"]["config"]["storage"]["files"][0]["contents"]["source"] = json!("data:,evil");
        o["metadata"]["labels"] = json!({"team": "a"});
    });
    scene.settle().await;
    let after = scene.object(&path).unwrap();
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["labels"][label::RENDERED], "worker");
    assert_eq!(after["metadata"]["labels"]["team"], "a");
}

#[tokio::test]
async fn the_same_meaning_in_other_clothes_is_not_fought_over() {
    // Another mcx version may encode the same bytes in another way.
    let mut scene = Scene::new();
    scene.source("50-x", "one");
    scene.settle().await;
    let path = config_path(&scene.target("worker"));
    scene.edit(&path, |o| {
        o["spec"]["config"]["storage"]["files"][0]["contents"]["source"] = json!("data:;base64,b25l");
    });
    scene.api.state().writes.clear();
    scene.round().await.unwrap();
    assert_eq!(scene.api.state().writes, Vec::<String>::new());
}

#[tokio::test]
async fn r_012_a_deleted_rendered_config_that_a_node_has_comes_back() {
    let mut scene = Scene::new();
    scene.source("50-x", "one");
    scene.settle().await;
    let old = scene.target("worker");
    scene.node("n1", &old, &old);
    scene.settle().await;
    scene.source("50-x", "two");
    scene.settle().await;
    let new = scene.target("worker");
    assert_ne!(new, old);
    let specs =
        [scene.object(&config_path(&old)), scene.object(&config_path(&new))].map(|o| o.unwrap()["spec"].clone());
    for name in [&old, &new] {
        scene.api.state().objects.remove(&config_path(name));
    }
    scene.settle().await;
    for (name, spec) in [&old, &new].into_iter().zip(specs) {
        let back = scene.object(&config_path(name)).unwrap_or_else(|| panic!("{name} is lost"));
        assert_eq!(back["spec"], spec);
        assert_eq!(back["metadata"]["labels"][label::RENDERED], "worker");
    }
}

#[tokio::test]
async fn r_012_a_config_in_use_of_a_pool_that_is_gone_comes_back_without_its_owner() {
    // With the owner's UID in it the garbage collector would delete it again at once.
    let mut scene = Scene::new();
    scene.settle().await;
    let name = scene.target("worker");
    scene.node("n1", &name, &name);
    scene.settle().await;
    for path in [pool_path("worker"), config_path(&name)] {
        scene.api.state().objects.remove(&path);
    }
    scene.settle().await;
    let back = scene.object(&config_path(&name)).unwrap();
    assert!(back["metadata"]["ownerReferences"].is_null(), "{back}");
}

#[tokio::test]
async fn an_edited_target_is_put_back_while_the_sources_are_refused_too() {
    let mut scene = Scene::new();
    scene.source("50-x", "one");
    scene.settle().await;
    let target = scene.target("worker");
    scene.edit(&pool_path("worker"), |p| {
        p["spec"]["configuration"] = json!({"name": "rendered-master-1", "uid": "x", "source": []});
    });
    scene.settle().await;
    assert_eq!(scene.target("worker"), target);
    assert!(scene.object(&pool_path("worker")).unwrap()["spec"]["configuration"]["uid"].is_null());
    scene.edit(&config_path("50-x"), |o| o["spec"]["config"]["ignition"]["version"] = json!("2.2.0"));
    scene.settle().await;
    assert_eq!(scene.target("worker"), target, "a refused source changes nothing");
    assert!(!scene.world.rendering["worker"].errors.is_empty());
    assert!(scene.world.rendering["master"].errors.is_empty());
    scene.edit(&pool_path("worker"), |p| p["spec"]["configuration"] = json!({"name": "rendered-master-1"}));
    scene.settle().await;
    assert_eq!(scene.target("worker"), target);
}

#[tokio::test]
async fn one_pool_that_cannot_be_written_does_not_stop_the_other() {
    let mut scene = Scene::new();
    scene.source("50-x", "one");
    scene.api.state().refuse = Some((Method::PATCH, "machineconfigpools/master", 500));
    let error = scene.round().await.unwrap_err();
    assert!(error.to_string().contains("MachineConfigPool master"), "{error}");
    assert_eq!(scene.target("master"), "");
    assert!(scene.target("worker").starts_with("rendered-worker-"));
    assert!(scene.world.pools["master"].target().is_none(), "nothing is handed out that the pool does not name");
    scene.api.state().refuse = None;
    scene.settle().await;
    assert!(scene.target("master").starts_with("rendered-master-"));
}

#[tokio::test]
async fn a_target_written_under_a_stale_pool_is_decided_again() {
    let mut scene = Scene::new();
    scene.read();
    scene.edit(&pool_path("worker"), |p| p["spec"]["paused"] = json!(true));
    for _ in 0..2 {
        scene.renderer.observe(&mut scene.world, &scene.objects, Instant::now());
    }
    scene.renderer.publish(&scene.leader, &mut scene.world, &scene.objects).await.unwrap();
    assert_eq!(scene.target("worker"), "", "the cache was older than the pool");
    scene.settle().await;
    assert!(scene.target("worker").starts_with("rendered-worker-"), "a paused pool renders too");
}

#[tokio::test]
async fn r_014_unused_configs_go_and_used_ones_stay_whatever_the_caches_say() {
    let mut scene = Scene::new();
    let mut targets = Vec::new();
    for text in ["1", "2", "3", "4"] {
        scene.source("50-x", text);
        scene.settle().await;
        targets.push(scene.target("worker"));
    }
    // The caches do not show this node yet.
    scene.read();
    scene.node("late", &targets[1], &targets[1]);
    scene.renderer.collected = None;
    scene.renderer.publish(&scene.leader, &mut scene.world, &scene.objects).await.unwrap();
    let left: Vec<bool> = targets.iter().map(|t| scene.object(&config_path(t)).is_some()).collect();
    // All are of the same age: which one is the newest of them is decided by name.
    assert!(left[1] && left[3], "{left:?}");
    assert!(left.iter().filter(|l| **l).count() <= 3, "nothing was collected: {left:?}");
}

#[test]
fn contents_are_held_against_the_name_only_for_our_own_version() {
    let mut config = MachineConfig {
        metadata: ObjectMeta { name: Some("rendered-worker-0".to_owned()), ..ObjectMeta::default() },
        spec: MachineConfigSpec {
            config: Some(json!({"ignition": {"version": "3.4.0"}}).into()),
            kernel_arguments: None,
        },
    };
    let made_by = |version: &str| Some([(annotation::GENERATED_BY.to_owned(), version.to_owned())].into());
    config.metadata.annotations = made_by("0.0.0");
    assert!(says_what_its_name_says(&config), "another version may hash in another way");
    config.metadata.annotations = made_by(env!("CARGO_PKG_VERSION"));
    assert!(!says_what_its_name_says(&config));
    let hash = Items::from_config(config.spec.config.as_ref().unwrap()).unwrap().hash();
    config.metadata.name = Some(format!("rendered-worker-{hash}"));
    assert!(says_what_its_name_says(&config));
}

#[test]
fn an_unreadable_object_is_named_in_one_line() {
    let why = Unreadable { labels: std::collections::BTreeMap::new(), error: "not a list".to_owned() };
    let text = super::super::finding("50-x", &why).to_string();
    assert!(text.contains("MachineConfig/50-x") && text.contains("not a list") && !text.contains('\n'), "{text}");
}
