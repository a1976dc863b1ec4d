package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
)

// of returns a pod for the profile called name.
func of(name string, p *corev1.Pod) *corev1.Pod {
	p.Spec.SchedulerName = name
	return p
}

// withProfiles is a cluster whose scheduler has one profile that packs pods, one that spreads them, and one
// that knows only node a.
func withProfiles(t *testing.T) *cluster {
	c := newCluster(t)
	onlyA := schedule.PredicateFunc("OnlyA", func(_ *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
		if n.Node.Name != "a" {
			return schedule.Refuse("node(s) were not a")
		}
		return schedule.Fits
	})
	c.change = func(config *schedule.Config) {
		config.Predicates, config.Priorities = nil, nil
		config.Profiles = []schedule.Profile{
			{Name: "packs", Predicates: predicates.Default(), Priorities: []schedule.Weighted{{Priority: priorities.MostAllocated()}}},
			{Name: "spreads", Predicates: predicates.Default(), Priorities: []schedule.Weighted{{Priority: priorities.LeastAllocated()}}},
			{Predicates: append([]schedule.Predicate{onlyA}, predicates.Default()...)},
		}
	}
	return c
}

// TestProfiles checks that each pod is placed by the profile that it names, beside the pods of the others, and
// that a pod that names another scheduler is left alone.
func TestProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withProfiles(t)
		c.nodes.Put(node("a", "4", "4Gi", "10"))
		c.nodes.Put(node("b", "4", "4Gi", "10"))
		c.run(func() {
			c.pods.Put(pod("first", "1", "1Gi"))
			c.expect(0, "0s first on a")
			c.pods.Put(of("packs", pod("packed", "1", "1Gi")))
			c.expect(0, "0s packed on a")
			c.pods.Put(of("spreads", pod("apart", "1", "1Gi")))
			c.expect(0, "0s apart on b")
			c.pods.Put(of("packs", pod("packed-too", "2", "1Gi")))
			c.expect(0, "0s packed-too on a")
			c.pods.Put(of("other", pod("foreign", "1", "1Gi")))
			c.expect(time.Hour)
		})
	})
}

// TestProfilesWait checks that a parked pod is refused, explained and woken by the predicates of its profile.
func TestProfilesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withProfiles(t)
		c.nodes.Put(node("a", "1", "4Gi", "10"))
		c.nodes.Put(node("b", "4", "4Gi", "10"))
		c.run(func() {
			c.pods.Put(of("packs", pod("big", "1", "1Gi")))
			c.expect(0, "0s big on a")
			c.pods.Put(pod("small", "1", "1Gi"))
			c.expect(0, "0s small PodScheduled Unschedulable: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were not a.")
			b := node("b", "8", "8Gi", "20")
			c.nodes.Put(b) // does not help
			c.expect(2 * time.Second)
			c.pods.Delete("default/big")
			c.expect(0, "2s small on a")
		})
	})
}

// preparing is a predicate that is also a PreBinder.
type preparing struct {
	schedule.Predicate
	prepare func(*corev1.Pod)
}

func (p preparing) PreBind(_ context.Context, pod *corev1.Pod, _ string) error {
	p.prepare(pod)
	return nil
}

func fits(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict { return schedule.Fits }

// TestProfileHooks checks that a profile has its own extensions, and that the pods of one without preemption wait.
func TestProfileHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := preempting(t)
		c.nodes.Put(node("a", "1", "1Gi", "10"))
		evicting := c.change
		noted := func(name string) []schedule.Predicate {
			return append(c.predicates, preparing{schedule.PredicateFunc(name, fits), func(p *corev1.Pod) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.note("%s prepared by %s", p.Name, name)
			}})
		}
		c.change = func(config *schedule.Config) {
			evicting(config)
			config.Predicates, config.Priorities = nil, nil
			config.Profiles = []schedule.Profile{
				{Name: "gentle", Predicates: noted("gentle"), NoPreemption: true},
				{Name: "rough", Predicates: noted("rough")},
			}
			config.Event = func(scheduler string, p *corev1.Pod, _, reason, _ string) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.note("%s says %s of %s", scheduler, reason, p.Name)
			}
		}
		c.run(func() {
			c.pods.Put(of("gentle", prior("low", "1", 0)))
			c.expect(0, "0s low prepared by gentle", "0s low on a", "0s gentle says Scheduled of low")
			const full = "0/1 nodes are available: 1 Insufficient cpu."
			c.pods.Put(of("gentle", prior("high", "1", 10)))
			c.expect(0, "0s gentle says FailedScheduling of high", "0s high PodScheduled Unschedulable: "+full)
			c.pods.Put(of("rough", prior("higher", "1", 20)))
			c.expect(10*time.Second,
				"0s rough says FailedScheduling of higher", "0s higher PodScheduled Unschedulable: "+full,
				`0s higher nominated "a"`, "0s low ends for higher on a", "0s rough says Preempted of low",
				"1s higher prepared by rough", "1s higher on a", "1s rough says Scheduled of higher")
		})
	})
}

// TestProfilesAreChecked checks which profiles New refuses.
func TestProfilesAreChecked(t *testing.T) {
	base := schedule.Config{Nodes: localcache.NewMap[*corev1.Node](), Pods: localcache.NewMap[*corev1.Pod](),
		Bind: func(context.Context, *corev1.Pod, string) error { return errors.New("not called") }}
	negative := []schedule.Weighted{{Priority: priorities.Taints(), Weight: -1}}
	for want, change := range map[string]func(*schedule.Config){
		"<nil>": func(c *schedule.Config) { c.Profiles = []schedule.Profile{{}, {Name: "x"}} },
		"schedule: two profiles have the name default-scheduler": func(c *schedule.Config) {
			c.Profiles = []schedule.Profile{{}, {Name: "default-scheduler"}}
		},
		"schedule: negative weight of TaintToleration": func(c *schedule.Config) {
			c.Profiles = []schedule.Profile{{Priorities: negative}}
		},
		"schedule: Profiles must not be set together with Name, Predicates or Priorities": func(c *schedule.Config) {
			c.Name, c.Profiles = "x", []schedule.Profile{{}}
		},
	} {
		config := base
		change(&config)
		if _, err := schedule.New(config); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestProfilesAreIndependent makes random changes to a State with three profiles, and to a State of each profile
// alone. A pod fits the same nodes, with the same scores, and the same events help it.
func TestProfilesAreIndependent(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	profiles := []schedule.Profile{
		{Name: "local", Predicates: append(predicates.Default(), annotated), Priorities: priorities.Default()},
		{Name: "whole", Predicates: []schedule.Predicate{apart{}, closedNamespaces{}}, Priorities: []schedule.Weighted{{Priority: priorities.MostAllocated()}}},
		{Name: "none"},
	}
	model := func(s *schedule.State) *wakeModel { return &wakeModel{State: s, rng: rand.New(rand.NewPCG(seed, 0))} }
	together := model(schedule.NewStateOf(profiles, seed))
	var alone []*wakeModel
	for _, p := range profiles {
		alone = append(alone, model(schedule.NewState(p.Predicates, p.Priorities, seed)))
	}
	pods := &wakeModel{rng: rand.New(rand.NewPCG(seed, 1))}
	type parked struct{ together, alone *schedule.FitError }
	waiting := make(map[*schedule.PodInfo]parked)
	for i := range 9 {
		waiting[schedule.NewPodInfo(of(profiles[i%3].Name, pods.pod(fmt.Sprint("waits", i))))] = parked{}
	}
	for step := range 400 {
		event := together.step()
		events := make(map[string]schedule.Event)
		states := make(map[string]*schedule.State)
		for i, m := range alone {
			events[profiles[i].Name], states[profiles[i].Name] = m.step(), m.State
		}
		for p, unfit := range waiting {
			name := p.Pod.Spec.SchedulerName
			if got, want := together.State.Explain(p), states[name].Explain(p); !reflect.DeepEqual(got, want) {
				t.Fatalf("step %d: nodes of %s for profile %s are\n%+v, but alone\n%+v", step, p.Key, name, got, want)
			}
			if unfit.together != nil {
				if got, want := together.State.Helps(unfit.together, event), states[name].Helps(unfit.alone, events[name]); got != want {
					t.Fatalf("step %d: %+v helps %s: %t, but alone %t", step, event, p.Key, got, want)
				}
			}
			_, unfit.together = together.State.Decide(p)
			_, unfit.alone = states[name].Decide(p)
			waiting[p] = unfit
		}
	}
}
