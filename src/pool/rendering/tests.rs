use super::*;
use crate::api::{MachineConfigPoolSpec, MachineConfigSpec, shipped};
use crate::pool::view::NodeView;
use crate::render::items::Items;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

const QUIET: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(5);

/// Hashes names and generations; refuses what is called bad.
fn fake_render(pool: &MachineConfigPool, all: &[MachineConfig]) -> Outcome {
    let sources: Vec<String> = all.iter().map(|s| s.name().to_owned()).collect();
    let text: Vec<String> =
        all.iter().map(|s| format!("{}.{}", s.name(), s.metadata.generation.unwrap_or_default())).collect();
    let bad = sources.iter().find(|s| s.contains("bad"));
    let findings = bad.map(|name| finding(name, &Unreadable { labels: BTreeMap::new(), error: "bad".to_owned() }));
    let rendered = Rendered {
        name: format!("rendered-{}-{}", pool.name(), text.join("+")).into(),
        config: json!({"ignition": {"version": "3.4.0"}}).into(),
        sources,
        items: Items::default(),
    };
    Outcome {
        no_sources: all.is_empty(),
        rendered: (findings.is_none() && !all.is_empty()).then_some(rendered),
        findings: findings.into_iter().collect(),
    }
}

struct Scene {
    renderer: Renderer,
    world: World,
    objects: Objects,
    now: Instant,
}

impl Scene {
    /// The shipped objects, rendered and published.
    fn new() -> Self {
        let renderer = Renderer { render: fake_render, ..Renderer::new(QUIET, LIMIT) };
        let mut scene = Self { renderer, world: World::default(), objects: Objects::default(), now: Instant::now() };
        for pool in shipped::pools() {
            scene.world.pools.insert(pool.name().into(), Arc::new(pool));
        }
        for role in ["master", "worker"] {
            scene.source(&format!("00-{role}"), role, 1);
            scene.target(role, &format!("rendered-{role}-00-{role}.1"));
        }
        scene
    }

    fn source(&mut self, name: &str, role: &str, generation: i64) {
        let config = MachineConfig {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                uid: Some(format!("uid-{name}")),
                generation: Some(generation),
                labels: Some([(label::ROLE.to_owned(), role.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: MachineConfigSpec::default(),
        };
        self.objects.configs.insert(name.to_owned(), Ok(Arc::new(config)));
    }

    fn target(&mut self, pool: &str, name: &str) {
        let pool = self.world.pools.get_mut(pool).unwrap();
        Arc::make_mut(pool).spec.configuration =
            Some(ConfigurationReference { name: Some(name.to_owned()), ..ConfigurationReference::default() });
    }

    fn observe(&mut self) -> Observed {
        self.renderer.observe(&mut self.world, &self.objects, self.now)
    }

    fn after(&mut self, milliseconds: u64) -> Observed {
        self.now += Duration::from_millis(milliseconds);
        self.observe()
    }

    fn state(&self, pool: &str) -> &Rendering {
        &self.world.rendering[pool]
    }

    fn rendered(&self, pool: &str) -> Option<&str> {
        Some(self.renderer.pools[pool].rendered()?.name.as_str())
    }
}

#[test]
fn a_replica_that_starts_says_at_once_how_pools_stand() {
    let mut scene = Scene::new();
    assert_eq!(scene.observe(), Observed { rendered: 2, refused: 0 });
    assert!(!scene.state("worker").pending && !scene.state("master").pending, "what is published is not pending");
    let mut scene = Scene::new();
    scene.source("50-new", "worker", 1);
    scene.observe();
    assert!(scene.state("worker").pending && !scene.state("master").pending, "edited while nobody looked");
}

#[test]
fn updated_turns_false_at_the_first_event_and_only_for_the_pool_concerned() {
    let mut scene = Scene::new();
    scene.observe();
    scene.source("50-new", "worker", 1);
    assert_eq!(scene.after(10), Observed::default());
    assert!(scene.state("worker").pending);
    assert!(!scene.state("master").pending, "another pool's sources are no concern of it");
}

#[test]
fn r_018_a_burst_of_edits_is_rendered_once() {
    let mut scene = Scene::new();
    scene.observe();
    for n in 1..=20 {
        scene.source(&format!("50-{n:02}"), "worker", 1);
        assert_eq!(scene.after(50), Observed::default(), "edit {n}");
    }
    assert_eq!(scene.renderer.next_due(), Some(scene.now + QUIET));
    assert_eq!(scene.after(999), Observed::default());
    assert_eq!(scene.after(1), Observed { rendered: 1, refused: 0 });
    assert!(scene.rendered("worker").unwrap().contains("50-20"));
    assert!(scene.state("worker").pending, "until it is written");
    let rendered = scene.rendered("worker").unwrap().to_owned();
    scene.target("worker", &rendered);
    scene.after(10);
    assert!(!scene.state("worker").pending);
    assert_eq!(scene.renderer.next_due(), None);
}

#[test]
fn an_endless_burst_is_rendered_at_the_limit() {
    let mut scene = Scene::new();
    scene.observe();
    let mut rendered = 0;
    for generation in 2..=13 {
        scene.source("00-worker", "worker", generation);
        rendered += scene.after(500).rendered;
    }
    assert_eq!(rendered, 1);
}

#[test]
fn r_169_writes_of_ours_start_no_rendering() {
    let mut scene = Scene::new();
    scene.observe();
    let worker = scene.world.pools.get_mut("worker").unwrap();
    let meta = &mut Arc::make_mut(worker).metadata;
    meta.generation = Some(99);
    meta.resource_version = Some("99".to_owned());
    let label = [(label::RENDERED.to_owned(), "worker".to_owned()), (label::ROLE.to_owned(), "worker".to_owned())];
    let mut made = MachineConfig::default();
    made.metadata.name = Some("rendered-worker-x".to_owned());
    made.metadata.labels = Some(label.into());
    scene.objects.configs.insert("rendered-worker-x".to_owned(), Ok(Arc::new(made)));
    assert_eq!(scene.after(5000), Observed::default());
    assert!(!scene.state("worker").pending);
}

#[test]
fn a_label_alone_brings_a_source_in_and_out() {
    // In the peer a change of labels did nothing until the next full resync.
    let mut scene = Scene::new();
    scene.source("50-x", "nobody", 1);
    scene.observe();
    scene.source("50-x", "worker", 1);
    scene.after(10);
    assert!(scene.state("worker").pending);
    assert_eq!(scene.after(1000).rendered, 1);
    assert!(scene.rendered("worker").unwrap().contains("50-x"));
    scene.source("50-x", "nobody", 1);
    scene.after(10);
    assert_eq!(scene.after(1000).rendered, 1);
    assert_eq!(scene.rendered("worker"), Some("rendered-worker-00-worker.1"));
}

#[test]
fn r_191_errors_stand_until_the_pool_renders_again_and_then_are_gone() {
    let mut scene = Scene::new();
    scene.observe();
    scene.source("50-bad", "worker", 1);
    scene.after(10);
    assert_eq!(scene.after(1000), Observed { rendered: 0, refused: 1 });
    assert_eq!(scene.state("worker").errors.len(), 1);
    assert!(!scene.state("worker").pending, "nothing new comes until a person acts");
    assert!(scene.state("master").errors.is_empty());
    scene.objects.configs.remove("50-bad");
    scene.after(10);
    assert_eq!(scene.state("worker").errors.len(), 1, "the pool has not rendered yet");
    scene.after(1000);
    assert!(scene.state("worker").errors.is_empty() && !scene.state("worker").pending);
}

#[test]
fn an_object_that_cannot_be_read_is_named_and_withdraws_nothing() {
    let mut scene = Scene::new();
    scene.observe();
    let labels = BTreeMap::from([(label::ROLE.to_owned(), "worker".to_owned())]);
    let broken = Unreadable { labels, error: "spec.kernelArguments: not a list".to_owned() };
    scene.objects.configs.insert("00-worker".to_owned(), Err(broken));
    scene.after(10);
    scene.after(1000);
    let state = scene.state("worker");
    assert!(!state.no_sources, "there is one, broken");
    assert_eq!(state.errors.len(), 1);
    assert!(state.errors[0].to_string().contains("MachineConfig/00-worker"), "{}", state.errors[0]);
    assert!(scene.state("master").errors.is_empty());
    assert_eq!(scene.rendered("worker"), None);
    assert_eq!(scene.world.pools["worker"].target(), Some("rendered-worker-00-worker.1"));
}

#[test]
fn a_pool_that_selects_nothing_keeps_its_target() {
    let mut scene = Scene::new();
    scene.observe();
    scene.objects.configs.remove("00-worker");
    scene.after(10);
    scene.after(1000);
    assert!(scene.state("worker").no_sources && !scene.state("worker").pending);
    assert_eq!(scene.world.pools["worker"].target(), Some("rendered-worker-00-worker.1"));
}

#[test]
fn an_edited_target_is_never_handed_out() {
    let mut scene = Scene::new();
    scene.observe();
    let ours = ConfigurationReference {
        name: Some("rendered-worker-00-worker.1".to_owned()),
        ..ConfigurationReference::default()
    };
    scene.renderer.pools.get_mut("worker").unwrap().target = Some(ours);
    scene.target("worker", "rendered-master-00-master.1");
    scene.after(10);
    assert_eq!(scene.world.pools["worker"].target(), Some("rendered-worker-00-worker.1"));
    scene.renderer.begin_term();
    scene.target("worker", "rendered-worker-of-another-leader");
    scene.after(10);
    assert_eq!(scene.world.pools["worker"].target(), Some("rendered-worker-of-another-leader"));
}

#[test]
fn r_192_a_write_that_fails_once_shows_no_condition() {
    let mut scene = Scene::new();
    scene.observe();
    let pool = scene.renderer.pools.get_mut("worker").unwrap();
    pool.write_error = Some("cannot create MachineConfig x".to_owned());
    pool.failing_since = Some(scene.now);
    scene.after(9_000);
    assert_eq!(scene.state("worker").write_error, None);
    scene.after(1_000);
    assert!(scene.state("worker").write_error.as_ref().unwrap().contains("cannot create"));
}

#[test]
fn r_044_a_source_that_no_pool_selects_is_found() {
    let mut scene = Scene::new();
    scene.source("50-typo", "wroker", 1);
    let names = |scene: &Scene| {
        let found = Renderer::unselected(&scene.world, &scene.objects);
        found.iter().map(|s| s.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&scene), ["50-typo"]);
    let mut unreadable = MachineConfigPool::new("x", MachineConfigPoolSpec::default());
    unreadable.spec.machine_config_selector = serde_json::from_value(json!({
        "matchExpressions": [{"key": "a", "operator": "Maybe"}]
    }))
    .unwrap();
    scene.world.pools.insert("x".into(), Arc::new(unreadable));
    assert_eq!(names(&scene), Vec::<String>::new(), "it may be meant for a pool whose selector cannot be read");
}

#[test]
fn r_012_what_is_in_use_is_remembered_and_forgotten_when_it_is_not() {
    let mut scene = Scene::new();
    let mut old = MachineConfig::default();
    old.metadata.name = Some("rendered-worker-old".to_owned());
    old.metadata.labels = Some([(label::RENDERED.to_owned(), "worker".to_owned())].into());
    scene.objects.configs.insert("rendered-worker-old".to_owned(), Ok(Arc::new(old)));
    scene.observe();
    assert!(scene.renderer.kept.is_empty());
    let node = NodeView { current: Some("rendered-worker-old".into()), ..NodeView::default() };
    scene.world.nodes.insert("n1".into(), Arc::new(node));
    scene.after(10);
    assert_eq!(scene.renderer.kept.len(), 1);
    scene.objects.configs.remove("rendered-worker-old");
    scene.after(10);
    assert_eq!(scene.renderer.kept.len(), 1, "deleted, and still in use");
    scene.world.nodes.clear();
    scene.after(10);
    assert!(scene.renderer.kept.is_empty());
}
