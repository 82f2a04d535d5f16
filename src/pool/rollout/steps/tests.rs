use super::*;
use crate::api::protocol::NodeState;
use crate::api::{Epoch, label};
use crate::pool::scene::{A, B, C, Scene, degraded, infra, node, updating};

fn with_slots(mut pool: MachineConfigPool, slots: Option<&Slots>) -> Answer {
    let text = slots.map(|s| serde_json::to_string(s).unwrap());
    let annotations = pool.metadata.annotations.get_or_insert_default();
    annotations.remove(annotation::SLOTS);
    annotations.extend(text.map(|text| (annotation::SLOTS.to_owned(), text)));
    Answer::Pool(Some(Arc::new(pool)))
}

fn pool_of(scene: &Scene) -> Answer {
    with_slots((*scene.world.pools[label::WORKER]).clone(), Some(&scene.slots))
}

fn node_of(scene: &Scene, name: &str) -> Answer {
    Answer::Node(scene.world.nodes.get(name).map(|n| (**n).clone()))
}

/// Runs a machine with these answers, and returns what it asked and how it ended.
fn drive<T>(
    scene: &Scene,
    mut step: impl FnMut(&Context, Option<Answer>) -> Next<T>,
    answers: Vec<Answer>,
) -> (Vec<Ask>, Option<Next<T>>) {
    let membership = scene.membership();
    let epoch = Epoch::from("e");
    let context = Context { world: &scene.world, membership: &membership, recovery: &scene.recovery, epoch: &epoch };
    let mut asked = Vec::new();
    let mut answers = answers.into_iter();
    let mut next = step(&context, None);
    loop {
        match next {
            Next::Ask(ask) => asked.push(ask),
            end => return (asked, Some(end)),
        }
        let Some(answer) = answers.next() else { return (asked, None) };
        next = step(&context, Some(answer));
    }
}

fn hand_out(scene: &Scene, answers: Vec<Answer>) -> (Vec<Ask>, Option<Next<Given>>) {
    let mut run = HandOut::new(label::WORKER.into(), "n1".into());
    drive(scene, |context, answer| run.step(context, answer), answers)
}

fn slot_run(scene: &Scene, answers: Vec<Answer>) -> (Vec<Ask>, Option<Next<SlotsWritten>>) {
    let mut run = SlotRun::new(label::WORKER.into());
    drive(scene, |context, answer| run.step(context, answer), answers)
}

fn holders(slots: &Slots) -> Vec<&str> {
    slots.nodes.iter().map(|h| h.name.as_str()).collect()
}

#[test]
fn the_pool_is_read_after_the_node_or_a_slot_may_be_used_twice() {
    // Hole A1: the Node's resourceVersion proves nothing about the pool, and a pool read before it proves nothing either.
    let scene = Scene::new(vec![node("n1")]).slots(&["n1"]);
    let (asked, end) = hand_out(&scene, vec![node_of(&scene, "n1"), pool_of(&scene), Answer::Wrote(true)]);
    let write = NodeChange::default().set(annotation::DESIRED_CONFIG, B);
    assert_eq!(asked, [Ask::Node("n1".into()), Ask::Pool(label::WORKER.into()), Ask::WriteNode(write)]);
    assert!(matches!(end, Some(Next::End(Some(given))) if given.begins()));
}

#[test]
fn a_stale_cache_that_shows_a_slot_writes_nothing() {
    // Hole A1: the cache says that n1 holds a slot and is to be retargeted; the slot is another's by now.
    let scene = Scene::new(vec![updating("n1", C), node("n2")]).slots(&["n1"]);
    let others = Scene::new(vec![]).slots(&["n2"]);
    let (_, end) = hand_out(
        &scene,
        vec![node_of(&scene, "n1"), with_slots((*scene.world.pools[label::WORKER]).clone(), Some(&others.slots))],
    );
    assert_eq!(end, Some(Next::End(None)));
}

#[test]
fn a_stale_cache_that_shows_an_older_target_or_no_pause_writes_nothing() {
    let scene = Scene::new(vec![node("n1")]).slots(&["n1"]);
    for now in [Scene::new(vec![]).target(A), Scene::new(vec![]).paused()] {
        let pool = with_slots((*now.world.pools[label::WORKER]).clone(), Some(&scene.slots));
        assert_eq!(hand_out(&scene, vec![node_of(&scene, "n1"), pool]).1, Some(Next::End(None)));
    }
}

#[test]
fn a_leader_that_reads_another_epoch_in_the_pool_stops() {
    // Hole A6.
    let scene = Scene::new(vec![node("n1")]).slots(&["n1"]);
    let others = Slots { epoch: "f".into(), ..scene.slots.clone() };
    let pool = |slots| with_slots((*scene.world.pools[label::WORKER]).clone(), slots);
    let (_, end) = hand_out(&scene, vec![node_of(&scene, "n1"), pool(Some(&others))]);
    assert_eq!(end, Some(Next::Stop(Stop::OtherEpoch)));
    assert_eq!(slot_run(&scene, vec![pool(Some(&others))]).1, Some(Next::Stop(Stop::OtherEpoch)));
    // Hole B12c: nobody but a take-over can tell who held one.
    assert_eq!(hand_out(&scene, vec![node_of(&scene, "n1"), pool(None)]).1, Some(Next::Stop(Stop::NoSlots)));
    assert_eq!(slot_run(&scene, vec![pool(None)]).1, Some(Next::Stop(Stop::NoSlots)));
}

#[test]
fn a_node_that_moved_away_since_it_was_cached_gets_nothing_here() {
    let scene = Scene::new(vec![node("n1")]).with_infra().slots(&["n1"]);
    let moved = Answer::Node(Some(infra(node("n1"))));
    assert_eq!(hand_out(&scene, vec![moved, pool_of(&scene)]).1, Some(Next::End(None)));
}

#[test]
fn another_node_of_that_name_gets_nothing_by_the_slot_of_the_first() {
    // Hole A5.
    let scene = Scene::new(vec![node("n1")]).slots(&["n1"]);
    let mut again = node("n1");
    again.uid = "uid-later".into();
    assert_eq!(hand_out(&scene, vec![Answer::Node(Some(again)), pool_of(&scene)]).1, Some(Next::End(None)));
    assert_eq!(hand_out(&scene, vec![Answer::Node(None)]).1, Some(Next::End(None)));
}

#[test]
fn a_conflict_is_no_success_and_is_not_repeated_blindly() {
    let scene = Scene::new(vec![node("n1")]).slots(&["n1"]);
    let (asked, end) = hand_out(&scene, vec![node_of(&scene, "n1"), pool_of(&scene), Answer::Wrote(false)]);
    assert_eq!((asked.len(), end), (3, Some(Next::End(None))));
}

#[test]
fn a_slot_is_given_back_only_after_an_uncached_read_of_its_node() {
    // The cache shows n1 at rest, which it was before it was sent to B.
    let scene = Scene::new(vec![node("n1")]).slots(&["n1"]).recovered().target(A);
    let read = |node: NodeView| slot_run(&scene, vec![pool_of(&scene), Answer::Node(Some(node)), Answer::Wrote(true)]);
    let (asked, end) = read(updating("n1", B));
    assert_eq!(asked, [Ask::Pool(label::WORKER.into()), Ask::Node("n1".into())]);
    assert_eq!(end, Some(Next::End(None)));
    let (_, end) = read(node("n1"));
    assert!(matches!(end, Some(Next::End(Some(written))) if written.slots.nodes.is_empty()));
    let (_, end) = read(NodeView { ready: false, ..node("n1") });
    assert_eq!(end, Some(Next::End(None)));
}

#[test]
fn one_write_gives_back_and_hands_on() {
    let done = NodeView { desired: Some(B.into()), current: Some(B.into()), ..node("n1") };
    let scene = Scene::new(vec![done, node("n2")]).slots(&["n1"]).recovered();
    let (asked, end) = slot_run(&scene, vec![pool_of(&scene), node_of(&scene, "n1"), Answer::Wrote(true)]);
    assert_eq!(asked.len(), 3);
    let Some(Next::End(Some(written))) = end else { panic!("{end:?}") };
    assert_eq!(holders(&written.slots), ["n2"]);
    assert_eq!(written.granted, written.slots.nodes);
    assert_eq!(written.slots.epoch, "e");
}

#[test]
fn a_slot_that_only_seems_free_is_not_handed_on() {
    // n1 seemed to be at rest and is not; by that, n2 seems free too, but has not been read.
    let away = NodeView { ready: false, ..node("n3") };
    let scene = Scene::new(vec![node("n1"), node("n2"), away.clone()]).limit(2).slots(&["n2", "n1"]).recovered();
    assert_eq!(scene.plan().give_back.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), ["n1"]);
    let read = Answer::Node(Some(NodeView { ready: false, ..node("n1") }));
    let (_, end) = slot_run(&scene, vec![pool_of(&scene), read, Answer::Wrote(true)]);
    assert_eq!(end, Some(Next::End(None)), "three slots at a limit of two");
}

#[test]
fn a_pool_that_needs_nothing_is_not_written() {
    let scene = Scene::new(vec![updating("n1", B)]).slots(&["n1"]);
    assert_eq!(slot_run(&scene, vec![pool_of(&scene)]), (vec![Ask::Pool(label::WORKER.into())], Some(Next::End(None))));
}

/// Takes over a pool with `slots`, and nodes n1 to n3 of which n2 is on its way; `late` replaces n3 in the second list.
fn take_over(slots: Option<&Slots>, conflict: bool, late: &NodeView) -> Vec<String> {
    let scene = Scene::new(vec![node("n1"), updating("n2", B), node("n3")]);
    let mut lists = Lists { pools: scene.world.pools.clone(), nodes: scene.world.nodes.clone() };
    let mut known = slots.cloned();
    let mut machine = TakeOver::new(vec![label::WORKER.into()]);
    let mut refuse = conflict;
    let mut answer = None;
    let mut story = Vec::new();
    loop {
        let epoch = Epoch::from("new");
        match machine.step(&epoch, &lists, answer.take()) {
            TakeOverNext::End => return story,
            TakeOverNext::List => {
                story.push("list".to_owned());
                lists.nodes.insert(late.name.clone(), Arc::new(late.clone()));
            }
            TakeOverNext::Ask(Ask::Pool(_)) => {
                answer = Some(with_slots((*scene.world.pools[label::WORKER]).clone(), known.as_ref()));
            }
            TakeOverNext::Ask(Ask::WriteSlots(slots)) if std::mem::take(&mut refuse) => {
                story.push("conflict".to_owned());
                drop(slots);
                answer = Some(Answer::Wrote(false));
            }
            TakeOverNext::Ask(Ask::WriteSlots(slots)) => {
                story.push(format!("pool {} {}", slots.epoch, holders(&slots).join(" ")));
                known = Some(slots);
                answer = Some(Answer::Wrote(true));
            }
            TakeOverNext::Ask(Ask::Node(name)) => {
                story.push(format!("node {name}"));
                answer = Some(node_of(&scene, name.as_str()));
            }
            TakeOverNext::Ask(Ask::WriteNode(change)) => {
                assert_eq!(change, NodeChange::default().set(annotation::EPOCH, "new"));
                answer = Some(Answer::Wrote(true));
            }
        }
    }
}

#[test]
fn a_new_leader_marks_the_pool_first_and_then_every_node_that_holds_a_slot() {
    // Hole A1: without the second, a write of the old leader that is under way still succeeds.
    let slots = Scene::new(vec![]).slots(&["n2", "n3"]).slots;
    assert_eq!(take_over(Some(&slots), false, &node("n3")), ["pool new n2 n3", "node n3", "node n2"]);
    let story = take_over(Some(&slots), true, &node("n3"));
    assert_eq!(story[..2], ["conflict", "pool new n2 n3"], "a lost race is not the end of it");
}

#[test]
fn slots_that_are_absent_are_rebuilt_and_every_node_of_the_pool_is_marked() {
    // Hole B12c.
    assert_eq!(take_over(None, false, &node("n3")), ["pool new n2", "node n3", "node n2", "node n1", "list",]);
}

#[test]
fn what_the_old_leader_wrote_before_it_was_stopped_gets_its_slot() {
    let late = NodeView { desired: Some(B.into()), ..node("n3") };
    let story = take_over(None, false, &late);
    assert_eq!(story.last().unwrap(), "pool new n2 n3");
}

#[test]
fn a_node_without_daemon_gets_no_slot_in_a_rebuild() {
    let none = NodeView { state: None, desired: None, current: None, ..node("n1") };
    let failed = degraded("n2", B, "x");
    let idle = NodeView { state: Some(NodeState::Done), ..node("n3") };
    let scene = Scene::new(vec![none, failed, idle]);
    let lists = Lists { pools: scene.world.pools.clone(), nodes: scene.world.nodes.clone() };
    let unsettled = lists.unsettled(&label::WORKER.into());
    assert_eq!(unsettled.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), ["n2"]);
}
