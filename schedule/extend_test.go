package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// names returns the names of nodes.
func names(nodes []*corev1.Node) (all []string) {
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

// accepting returns a Filter that accepts some nodes only, and notes what it is asked.
func (c *cluster) accepting(extender string, accepted ...string) func(context.Context, *corev1.Pod, []*corev1.Node) ([]string, map[string]schedule.Verdict, error) {
	return func(_ context.Context, p *corev1.Pod, nodes []*corev1.Node) ([]string, map[string]schedule.Verdict, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.note("%s filters %v for %s", extender, names(nodes), p.Name)
		var rest []string
		refused := map[string]schedule.Verdict{}
		for _, n := range nodes {
			if slices.Contains(accepted, n.Name) {
				rest = append(rest, n.Name)
			} else {
				refused[n.Name] = schedule.Refuse("refused by " + extender)
			}
		}
		return rest, refused, nil
	}
}

// withExtenders returns a cluster with nodes of one core and extenders.
func withExtenders(t *testing.T, nodes []string, extenders func(*cluster) []schedule.Extender) *cluster {
	c := newCluster(t)
	for _, name := range nodes {
		c.nodes.Put(node(name, "1", "1Gi", "110"))
	}
	c.change = func(config *schedule.Config) { config.Extenders = extenders(c) }
	return c
}

// TestExtendersFilter asks one extender after another, those that can be ignored last, each about the nodes
// that are left; and none about a pod in which it is not interested.
func TestExtendersFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withExtenders(t, []string{"a", "b", "c", "full"}, func(c *cluster) []schedule.Extender {
			return []schedule.Extender{
				{Name: "last", Ignorable: true, Filter: c.accepting("last", "b")},
				{Name: "first", Filter: c.accepting("first", "a", "b"), Interested: func(p *corev1.Pod) bool { return p.Name != "plain" }},
				{Name: "never", Filter: c.accepting("never"), Interested: func(*corev1.Pod) bool { return false }},
				{Name: "broken", Ignorable: true, Filter: func(context.Context, *corev1.Pod, []*corev1.Node) ([]string, map[string]schedule.Verdict, error) {
					return nil, nil, errors.New("broken")
				}},
			}
		})
		c.pods.Put(on(pod("big", "1", ""), "full"))
		c.run(func() {
			c.pods.Put(pod("web", "100m", ""))
			c.expect(0, "0s first filters [a b c] for web", "0s last filters [a b] for web", "0s web on b")
			c.pods.Put(pod("plain", "100m", ""))
			c.expect(0, "0s last filters [a b c] for plain", "0s plain on b")
		})
	})
}

// TestExtenderRefuses says in the condition why extenders refuse nodes, and asks again after every event
// but heartbeats.
func TestExtenderRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withExtenders(t, []string{"a", "b", "full"}, func(c *cluster) []schedule.Extender {
			return []schedule.Extender{{Name: "one", Filter: c.accepting("one", "z")}}
		})
		c.pods.Put(on(pod("big", "1", ""), "full"))
		const refusal = "web PodScheduled Unschedulable: 0/3 nodes are available: 1 Insufficient cpu, 2 refused by one."
		c.run(func() {
			c.pods.Put(pod("web", "100m", ""))
			c.expect(time.Second, "0s one filters [a b] for web", "0s "+refusal)
			beat := node("a", "1", "1Gi", "110")
			beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
			c.nodes.Put(beat) // a new condition is one
			c.expect(0, "1s one filters [a b] for web")
			beat = beat.DeepCopy()
			beat.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Minute))
			c.nodes.Put(beat)
			c.expect(time.Minute)
			c.pods.Put(on(pod("other", "1m", ""), "b"))
			c.expect(0, "61s one filters [a b] for web")
			c.nodes.Put(node("z", "1", "1Gi", "110"))
			c.expect(4*time.Second, "65s one filters [a b z] for web", "65s web on z")
		})
	})
}

// TestExtenderFails reports the failure of an extender that must not be ignored, and tries again with growing
// pauses.
func TestExtenderFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 2
		c := withExtenders(t, []string{"a", "b"}, func(c *cluster) []schedule.Extender {
			return []schedule.Extender{{Name: "one", Filter: func(ctx context.Context, p *corev1.Pod, nodes []*corev1.Node) ([]string, map[string]schedule.Verdict, error) {
				if failures--; failures >= 0 {
					return nil, nil, errors.New("failed filter with extender at URL x, code 500")
				}
				return c.accepting("one", "a")(ctx, p, nodes)
			}}}
		})
		var events []string
		change := c.change
		c.change = func(config *schedule.Config) {
			change(config)
			config.Event = func(_ string, p *corev1.Pod, _, reason, message string) { events = append(events, reason+": "+message) }
		}
		c.run(func() {
			c.pods.Put(pod("web", "100m", ""))
			c.expect(time.Minute, "0s web PodScheduled SchedulerError: failed filter with extender at URL x, code 500",
				"3s one filters [a b] for web", "3s web on a")
		})
		const failed = "FailedScheduling: failed filter with extender at URL x, code 500"
		if want := []string{failed, failed, "Scheduled: Successfully assigned default/web to a"}; !slices.Equal(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
	})
}

// scoring returns a Prioritize that gives one node a score and takes some time.
func scoring(node string, score int64, takes time.Duration) func(context.Context, *corev1.Pod, []*corev1.Node) (map[string]int64, error) {
	return func(context.Context, *corev1.Pod, []*corev1.Node) (map[string]int64, error) {
		time.Sleep(takes) // of the bubble's clock
		return map[string]int64{node: score, "unknown": 1 << 40}, nil
	}
}

// TestExtendersPrioritize asks all extenders at once and adds their scores; one that fails is left out, even
// if it must not be ignored.
func TestExtendersPrioritize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withExtenders(t, []string{"a", "b", "c"}, func(c *cluster) []schedule.Extender {
			return []schedule.Extender{
				{Name: "one", Prioritize: scoring("a", 600, time.Second)},
				{Name: "two", Prioritize: scoring("b", 500, time.Second)},
				{Name: "three", Prioritize: scoring("b", 500, time.Second)},
				{Name: "broken", Prioritize: func(context.Context, *corev1.Pod, []*corev1.Node) (map[string]int64, error) {
					return map[string]int64{"c": 1 << 40}, errors.New("broken")
				}},
			}
		})
		c.pods.Put(pod("web", "100m", ""))
		c.run(func() { c.expect(time.Minute, "1s web on b") })
	})
}

// TestSlowExtender schedules other pods while an extender is asked. The pod goes to the next best node if they
// take its room.
func TestSlowExtender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withExtenders(t, []string{"a", "b"}, func(c *cluster) []schedule.Extender {
			return []schedule.Extender{{
				Name: "slow", Interested: func(p *corev1.Pod) bool { return strings.HasPrefix(p.Name, "slow") },
				Prioritize: scoring("a", 1000, 2*time.Second),
			}}
		})
		c.run(func() {
			c.pods.Put(pod("slow", "1", ""))
			c.expect(time.Second)
			quick := pod("quick", "1", "")
			quick.Spec.NodeSelector = map[string]string{"only": "a"}
			labelled := node("a", "1", "1Gi", "110")
			labelled.Labels = map[string]string{"only": "a"}
			c.nodes.Put(labelled)
			c.pods.Put(quick)
			c.expect(0, "1s quick on a")
			c.expect(time.Second, "2s slow on b")
		})
	})
}

// TestNodesTakenMeanwhile tries a pod again when other pods took all nodes while an extender was asked.
func TestNodesTakenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withExtenders(t, []string{"a", "b"}, func(c *cluster) []schedule.Extender {
			return []schedule.Extender{{
				Name: "slow", Interested: func(p *corev1.Pod) bool { return p.Name == "slow" }, Prioritize: scoring("a", 1000, 2*time.Second),
			}}
		})
		c.run(func() {
			c.pods.Put(pod("slow", "1", ""))
			c.expect(time.Second)
			c.pods.Put(pod("one", "1", ""))
			c.pods.Put(pod("two", "1", ""))
			synctest.Wait()
			free := "b" // when one is gone
			if one, _ := c.pods.Get("default/one"); one.Spec.NodeName == "a" {
				free = "a"
			}
			c.mu.Lock()
			c.log = nil
			c.mu.Unlock()
			c.expect(2*time.Second, "3s slow PodScheduled Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.")
			c.pods.Delete("default/one")
			c.expect(10*time.Second, "5s slow on "+free)
		})
	})
}

// TestEventWhileAsked tries a pod again that an extender refused if something happened meanwhile.
func TestEventWhileAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withExtenders(t, []string{"a"}, func(c *cluster) []schedule.Extender {
			return []schedule.Extender{{Name: "slow", Filter: func(ctx context.Context, p *corev1.Pod, nodes []*corev1.Node) ([]string, map[string]schedule.Verdict, error) {
				time.Sleep(2 * time.Second) // of the bubble's clock
				return c.accepting("slow", "b")(ctx, p, nodes)
			}}}
		})
		c.run(func() {
			c.pods.Put(pod("web", "1", ""))
			c.expect(time.Second)
			c.nodes.Put(node("b", "1", "1Gi", "110"))
			c.expect(10*time.Second, "2s slow filters [a] for web", "2s web PodScheduled Unschedulable: 0/1 nodes are available: 1 refused by slow.",
				"5s slow filters [a b] for web", "5s web on b")
		})
	})
}

// withSlowExtender returns a cluster with an extender that takes a second of the bubble's clock and accepts the
// node a.
func withSlowExtender(t *testing.T) *cluster {
	return withExtenders(t, []string{"a"}, func(c *cluster) []schedule.Extender {
		return []schedule.Extender{{Name: "slow", Filter: func(ctx context.Context, p *corev1.Pod, nodes []*corev1.Node) ([]string, map[string]schedule.Verdict, error) {
			time.Sleep(time.Second)
			return c.accepting("slow", "a")(ctx, p, nodes)
		}}}
	})
}

// TestPodGoneWhileAsked drops a pod that is deleted while an extender is asked, and asks about the next of
// its name. Pods wait for extenders by priority.
func TestPodGoneWhileAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withSlowExtender(t)
		c.run(func() {
			c.pods.Put(pod("web", "100m", ""))
			synctest.Wait()
			c.pods.Put(pod("later", "100m", ""))
			c.pods.Put(pod("gone", "100m", ""))
			c.pods.Put(prior("urgent", "100m", 10))
			synctest.Wait()
			c.pods.Delete("default/gone")
			c.pods.Delete("default/web")
			again := pod("web", "100m", "")
			again.UID = "second"
			c.pods.Put(again)
			c.expect(10*time.Second, "1s slow filters [a] for web", "2s slow filters [a] for urgent", "2s urgent on a",
				"3s slow filters [a] for later", "3s later on a", "4s slow filters [a] for web", "4s web on a")
		})
	})
}

// TestPodBackWhileAsked binds a pod once that leaves the cache and comes back while an extender is asked.
func TestPodBackWhileAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withSlowExtender(t)
		c.run(func() {
			c.pods.Put(pod("web", "100m", ""))
			synctest.Wait()
			c.pods.Delete("default/web")
			c.pods.Put(pod("web", "100m", ""))
			c.expect(10*time.Second, "1s slow filters [a] for web", "2s slow filters [a] for web", "2s web on a")
		})
	})
}

// TestExtenderBinds leaves the binding to an extender for the pods in which it is interested.
func TestExtenderBinds(t *testing.T) {
	for name, test := range map[string]struct {
		ignorable bool
		err       error
		want      []string
	}{
		"binds":   {false, nil, []string{"0s bound web to a", "0s other on a"}},
		"fails":   {false, errors.New("no"), []string{"0s bound web to a", "0s web PodScheduled SchedulerError: no", "0s other on a", "1s bound web to a"}},
		"ignored": {true, errors.New("no"), []string{"0s bound web to a", "0s web on a", "0s other on a"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := test.err
				c := withExtenders(t, []string{"a"}, func(c *cluster) []schedule.Extender {
					return []schedule.Extender{{
						Name: "binder", Ignorable: test.ignorable, Interested: func(p *corev1.Pod) bool { return p.Name == "web" },
						Bind: func(_ context.Context, p *corev1.Pod, node string) error {
							failure := err
							err = nil
							c.mu.Lock()
							c.note("bound %s to %s", p.Name, node)
							c.mu.Unlock()
							if failure == nil {
								c.pods.Put(on(p, node))
							}
							return failure
						},
					}}
				})
				c.run(func() {
					c.pods.Put(pod("web", "100m", ""))
					synctest.Wait()
					c.pods.Put(pod("other", "100m", ""))
					c.expect(time.Minute, test.want...)
				})
			})
		})
	}
}

// TestExtenderPreempts lets an extender choose the victims.
func TestExtenderPreempts(t *testing.T) {
	const unfit = "0s urgent PodScheduled Unschedulable: 0/2 nodes are available: 2 Insufficient cpu."
	onB := []string{unfit, `0s urgent nominated "b"`, "0s batch ends for urgent on b", "1s urgent on b"}
	onA := []string{unfit, `0s urgent nominated "a"`, "0s web ends for urgent on a", "1s urgent on a"}
	for name, test := range map[string]struct {
		answer    map[string]schedule.VictimUIDs
		err       error
		ignorable bool
		want      []string
	}{
		"fewer nodes":   {answer: map[string]schedule.VictimUIDs{"a": {UIDs: []types.UID{"uid-web"}}}, want: onA},
		"budgets":       {answer: map[string]schedule.VictimUIDs{"a": {UIDs: []types.UID{"uid-web"}}, "b": {UIDs: []types.UID{"uid-batch"}, Violations: 1}}, want: onA},
		"twice":         {answer: map[string]schedule.VictimUIDs{"b": {UIDs: []types.UID{"uid-batch", "uid-batch"}}}, want: onB},
		"none":          {want: []string{unfit + " no new claims to deallocate, preemption: no candidate node for preemption"}},
		"fails":         {err: errors.New("broken"), want: []string{unfit + " preemption: broken"}},
		"fails ignored": {err: errors.New("broken"), ignorable: true, want: onB},
		"no victims":    {answer: map[string]schedule.VictimUIDs{"a": {}}, want: []string{unfit + ` preemption: expected at least one victim pod on node "a"`}},
		"no victims there": {answer: map[string]schedule.VictimUIDs{"a": {}, "b": {UIDs: []types.UID{"uid-batch"}}},
			ignorable: true, want: onB},
		"unknown node": {answer: map[string]schedule.VictimUIDs{"z": {UIDs: []types.UID{"uid-web"}}},
			want: []string{unfit + ` preemption: nodeinfo not found for node name "z"`}},
		"pod elsewhere": {answer: map[string]schedule.VictimUIDs{"a": {UIDs: []types.UID{"uid-batch"}}},
			want: []string{unfit + " preemption: extender: one claims to preempt pod (UID: uid-batch) on node: a, but the pod is not found on that node"}},
		"more important": {answer: map[string]schedule.VictimUIDs{"a": {UIDs: []types.UID{"uid-system"}}},
			want: []string{unfit + " preemption: extender: one claims to preempt pod (UID: uid-system) on node: a, but its priority is not lower"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := preempting(t)
				change := c.change
				c.change = func(config *schedule.Config) {
					change(config)
					config.Extenders = []schedule.Extender{{Name: "one", Ignorable: test.ignorable, Preempt: func(_ context.Context, p *corev1.Pod, found []schedule.Preemption) (map[string]schedule.VictimUIDs, error) {
						var got []string
						for _, f := range found {
							got = append(got, fmt.Sprintf("%s on %s", f.Victims[0].Pod.Name, f.Node))
						}
						slices.Sort(got)
						if want := []string{"batch on b", "web on a"}; !slices.Equal(got, want) {
							t.Errorf("asked about %q, want %q", got, want)
						}
						return test.answer, test.err
					}}}
				}
				for _, name := range []string{"a", "b"} {
					c.nodes.Put(node(name, "1", "1Gi", "10"))
				}
				c.pods.Put(on(prior("web", "900m", 5), "a"))
				c.pods.Put(on(prior("system", "100m", 50), "a"))
				c.pods.Put(on(prior("batch", "1", 0), "b"))
				c.run(func() {
					c.pods.Put(prior("urgent", "600m", 10))
					c.expect(20*time.Second, test.want...)
				})
			})
		})
	}
}

// TestExtenderAndPreemption does not preempt on nodes that an extender refuses, and asks about a reserved
// node first.
func TestExtenderAndPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := preempting(t)
		change := c.change
		c.change = func(config *schedule.Config) {
			change(config)
			config.Extenders = []schedule.Extender{{Name: "one", Filter: c.accepting("one", "b", "c"), Prioritize: scoring("c", 1000, 0)}}
		}
		c.nodes.Put(node("a", "1", "1Gi", "10"))
		c.nodes.Put(node("b", "1", "1Gi", "10"))
		c.pods.Put(on(prior("small", "100m", 0), "a"))
		c.pods.Put(on(prior("batch", "1", 5), "b"))
		c.run(func() {
			c.pods.Put(prior("urgent", "600m", 10))
			c.expect(500*time.Millisecond, "0s one filters [a] for urgent",
				"0s urgent PodScheduled Unschedulable: 0/2 nodes are available: 1 Insufficient cpu, 1 refused by one.",
				`0s urgent nominated "b"`, "0s batch ends for urgent on b")
			c.nodes.Put(node("c", "1", "1Gi", "10")) // it has a better score, but is not reserved
			c.pods.Delete("default/batch")
			c.expect(10*time.Second, "1s one filters [b] for urgent", "1s urgent on b")
		})
	})
}

// TestExtenderRefusesAll says that no preemption helps where an extender refuses nodes.
func TestExtenderRefusesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := preempting(t)
		change := c.change
		c.change = func(config *schedule.Config) {
			change(config)
			config.Extenders = []schedule.Extender{{Name: "one", Filter: func(context.Context, *corev1.Pod, []*corev1.Node) ([]string, map[string]schedule.Verdict, error) {
				return []string{"not asked about"}, map[string]schedule.Verdict{"a": schedule.RefuseAlways("no gpu")}, nil
			}}}
		}
		for _, name := range []string{"a", "b"} {
			c.nodes.Put(node(name, "1", "1Gi", "10"))
			c.pods.Put(on(prior("low-"+name, "100m", 0), name))
		}
		c.run(func() {
			c.pods.Put(prior("urgent", "600m", 10))
			c.expect(time.Second, "0s urgent PodScheduled Unschedulable: 0/2 nodes are available: 1 no gpu, 1 node(s) were refused by extender one."+
				" no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.")
		})
	})
}

// TestExtenderHangs ends a run while an extender is asked.
func TestExtenderHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withExtenders(t, []string{"a"}, func(*cluster) []schedule.Extender {
			return []schedule.Extender{{Name: "hangs", Filter: func(ctx context.Context, _ *corev1.Pod, _ []*corev1.Node) ([]string, map[string]schedule.Verdict, error) {
				<-ctx.Done()
				return nil, nil, ctx.Err()
			}}}
		})
		c.pods.Put(pod("web", "100m", ""))
		c.run(func() { c.expect(time.Hour) })
		c.expect(time.Hour) // nothing is said of it
	})
}

func TestOneBinder(t *testing.T) {
	bind := func(context.Context, *corev1.Pod, string) error { return nil }
	_, err := schedule.New(schedule.Config{
		Nodes: localcache.NewMap[*corev1.Node](), Pods: localcache.NewMap[*corev1.Pod](), Bind: bind,
		Extenders: []schedule.Extender{{Bind: bind}, {Bind: bind}},
	})
	if err == nil || err.Error() != "schedule: more than one extender binds pods" {
		t.Error(err)
	}
}
