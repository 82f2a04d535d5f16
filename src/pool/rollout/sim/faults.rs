//! What happens around the controllers: time, caches that hear of things, daemons, people and faults.

use super::Setting;
use super::cluster::{Cluster, config, number, reference, role};
use super::leader::{Leader, Role};
use crate::api::{NodeName, PoolName};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

impl Cluster {
    /// One random thing happens.
    pub(super) fn random_step(&mut self) {
        self.now += 1;
        for frozen in &mut self.frozen {
            *frozen = frozen.saturating_sub(1);
        }
        match self.rng.below(100) {
            0..45 => self.leader_turn(),
            45..60 => self.cache_turn(),
            60..85 => self.daemon_turn(),
            85..90 => self.lease_turn(),
            _ => self.fault_turn(),
        }
    }

    /// One thing happens, and no fault.
    pub(super) fn fair_step(&mut self) {
        self.now += 1;
        match self.rng.below(4) {
            0 => self.leader_turn(),
            1 => self.cache_turn(),
            2 => self.daemon_turn(),
            _ => self.lease_turn(),
        }
    }

    fn leader_turn(&mut self) {
        let who = self.rng.below(2);
        if self.frozen[who] > 0 {
            return;
        }
        if self.leaders.iter().all(|l| l.role == Role::Standby) {
            self.elect(who);
        } else if self.leaders[who].role != Role::Standby {
            self.leader_step(who);
            self.maybe_ambush(who);
        }
    }

    /// Freezes a leader between two requests of one job; another takes over, and people change their minds.
    fn maybe_ambush(&mut self, who: usize) {
        if !self.faults || self.setting.ambushes == 0 || !self.leaders[who].is_in_mid_job() || !self.rng.chance(4) {
            return;
        }
        self.setting.ambushes -= 1;
        self.tell(|| format!("leader {who} freezes in mid-job"));
        self.frozen[who] = 60 + u32::try_from(self.rng.below(200)).unwrap();
        if !self.rng.chance(4) {
            self.frozen[1 - who] = 0;
            self.elect(1 - who);
        }
        let pool = self.pools.keys().next().unwrap().clone();
        match self.rng.below(4) {
            0 => self.change_pool(&pool, |p| p.spec.paused = Some(!p.is_paused())),
            1 => self.edit(&pool),
            2 => {
                // Back to where most nodes are.
                let at = self.nodes.values().find_map(|n| n.object.current.clone());
                self.set_target(&pool, at.as_ref().map(number).unwrap_or_default());
            }
            _ => {}
        }
    }

    fn cache_turn(&mut self) {
        let who = self.rng.below(2);
        let objects = self.daemons.len() + self.pools.len() + 1;
        if self.rng.chance(2) {
            let pick = self.rng.below(objects);
            self.deliver(who, pick);
        } else {
            (0..objects).for_each(|pick| self.deliver(who, pick));
        }
    }

    fn daemon_turn(&mut self) {
        let names: Vec<NodeName> = self.daemons.keys().cloned().collect();
        let name = names[self.rng.below(names.len())].clone();
        self.daemon_step(&name);
    }

    fn lease_turn(&mut self) {
        let now = self.timestamp();
        for (name, node) in &self.nodes {
            if node.object.ready {
                self.leases.insert(name.clone(), now);
            }
        }
        // A node that was powered off comes back by itself.
        if !self.faults {
            let names: Vec<NodeName> = self.nodes.keys().cloned().collect();
            for name in names {
                if !self.daemons[&name].rebooting {
                    self.change_node(&name, |n| n.ready = true);
                }
            }
        }
    }

    fn fault_turn(&mut self) {
        let node = NodeName::from(format!("n{}", self.rng.below(self.setting.nodes)));
        let pool = self.pools.keys().nth(self.rng.below(self.pools.len())).unwrap().clone();
        let who = self.rng.below(2);
        let moves = self.setting.pools > 1;
        let counting = self.leaders.iter().any(Leader::is_in_mid_job);
        let mut once = |count: fn(&mut Setting) -> &mut u32| {
            let left = count(&mut self.setting);
            let any = *left > 0;
            *left = left.saturating_sub(1);
            any
        };
        match self.rng.below(13) {
            0 | 1 if once(|s| &mut s.edits) => self.edit(&pool),
            2 if once(|s| &mut s.failovers) => self.elect(who),
            3 if once(|s| &mut s.freezes) => self.frozen[who] = 40,
            4 if once(|s| &mut s.admin) => self.cordon_by_hand(&node),
            5 if once(|s| &mut s.not_ready) => {
                self.tell(|| format!("{node} changes its readiness"));
                if !self.daemons[&node].rebooting {
                    self.change_node(&node, |n| n.ready = !n.ready);
                }
            }
            6 if once(|s| &mut s.deletions) => self.delete_or_register(&node),
            7 if moves && once(|s| &mut s.moves) => {
                self.moved = true;
                self.tell(|| format!("{node} moves"));
                self.change_node(&node, |n| {
                    if n.labels.remove(&role("infra")).is_none() {
                        n.labels.insert(role("infra"), String::new());
                    }
                });
            }
            8 if once(|s| &mut s.forces) => {
                self.tell(|| format!("{node} is forced"));
                self.daemons.get_mut(&node).unwrap().force = true;
            }
            9 if once(|s| &mut s.drifts) => {
                let daemon = self.daemons.get_mut(&node).unwrap();
                daemon.drift = !daemon.drift && daemon.journal.is_none();
                self.tell(|| format!("{node} drifts or heals"));
            }
            10 if once(|s| &mut s.pauses) => self.change_pool(&pool, |p| p.spec.paused = Some(!p.is_paused())),
            11 if once(|s| &mut s.wipes) => {
                self.wiped = true;
                self.tell(|| format!("slots of {pool} are deleted"));
                self.change_pool(&pool, |p| p.metadata.annotations = None);
            }
            // Between the count and the cordon nobody can see a limit that is lowered.
            12 if !counting && once(|s| &mut s.limits) => {
                self.limited = true;
                let limit = 1 + i32::from(self.rng.chance(2));
                self.tell(|| format!("limit of {pool} is {limit}"));
                self.change_pool(&pool, |p| p.spec.max_unavailable = Some(IntOrString::Int(limit)));
            }
            _ => {}
        }
    }

    /// To a new config, or back to an earlier one.
    fn edit(&mut self, pool: &PoolName) {
        self.configs += 1;
        let back = self.rng.chance(3);
        let number = if back { self.rng.below(self.configs) } else { self.configs };
        self.set_target(pool, number);
    }

    fn set_target(&mut self, pool: &PoolName, number: usize) {
        let target = config(pool, number);
        self.tell(|| format!("target of {pool} is {target}"));
        self.change_pool(pool, |p| p.spec.configuration = Some(reference(&target)));
    }

    fn cordon_by_hand(&mut self, name: &NodeName) {
        self.version += 1;
        let time = self.instant();
        let Some(node) = self.nodes.get(name) else { return };
        let cordons = !node.object.cordoned;
        self.tell(|| format!("{name} is {} by hand", if cordons { "cordoned" } else { "uncordoned" }));
        if cordons {
            self.foreign.insert(name.clone());
        } else {
            self.foreign.remove(name);
        }
        self.change_node(name, |n| {
            n.cordoned = cordons;
            n.cordoned_at = cordons.then_some(time);
        });
    }

    fn delete_or_register(&mut self, name: &NodeName) {
        if self.nodes.remove(name).is_some() {
            self.foreign.remove(name);
            self.tell(|| format!("{name} is deleted"));
        } else {
            let node = self.new_node(name, 50);
            self.tell(|| format!("{name} is registered again as {}", node.uid));
            self.store_node(node);
        }
    }

    /// No more faults; what administrators did is undone by them, and the last target is a good one.
    pub(super) fn stop_faults(&mut self) {
        self.faults = false;
        self.frozen = [0; 2];
        self.tell(|| "no more faults".to_owned());
        let names: Vec<NodeName> = self.daemons.keys().cloned().collect();
        for name in &names {
            if !self.nodes.contains_key(name) {
                self.delete_or_register(name);
            }
            if self.foreign.remove(name) {
                self.change_node(name, |n| (n.cordoned, n.cordoned_at) = (false, None));
            }
            if !self.daemons[name].rebooting {
                self.change_node(name, |n| n.ready = true);
            }
            self.daemons.get_mut(name).unwrap().drift = false;
        }
        let pools: Vec<PoolName> = self.pools.keys().cloned().collect();
        for pool in &pools {
            self.change_pool(pool, |p| p.spec.paused = None);
            while self.pools[pool].object.target().is_none_or(|t| self.is_bad(&t.into())) {
                self.configs += 1;
                self.set_target(pool, self.configs);
            }
        }
    }
}
