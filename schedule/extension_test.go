package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// steps is an extension with all steps, which notes them. The mutex of the cluster guards what it does.
type steps struct {
	name    string
	cluster *cluster
	refuse  map[string]bool // reserve, permit, prebind, bind
	wait    time.Duration
	// binds takes the binding over.
	binds bool
	// permit, if not nil, is called in Permit.
	permit func(p *schedule.PodInfo, w *schedule.Waiting)
}

func (s *steps) Name() string { return s.name }

func (s *steps) note(step, pod string) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	s.cluster.note("%s %s %s", s.name, step, pod)
}

// set changes what the extension does while a scheduler runs.
func (s *steps) set(change func()) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	change()
}

func (s *steps) verdict(step, pod string) schedule.Verdict {
	s.note(step, pod)
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	if s.refuse[step] {
		return schedule.Refuse("refused in " + step)
	}
	return schedule.Fits
}

func (s *steps) Reserve(p *schedule.PodInfo, _ string) schedule.Verdict {
	return s.verdict("reserve", p.Pod.Name)
}

func (s *steps) Unreserve(p *schedule.PodInfo, _ string) { s.note("unreserve", p.Pod.Name) }

func (s *steps) Permit(p *schedule.PodInfo, _ string, w *schedule.Waiting) (schedule.Verdict, time.Duration) {
	v := s.verdict("permit", p.Pod.Name)
	s.cluster.mu.Lock()
	wait, permit := s.wait, s.permit
	s.cluster.mu.Unlock()
	if permit != nil {
		permit(p, w)
	}
	return v, wait
}

func (s *steps) PreBind(_ context.Context, pod *corev1.Pod, _ string) error {
	if !s.verdict("prebind", pod.Name).OK() {
		return errors.New("not ready")
	}
	return nil
}

func (s *steps) Bind(ctx context.Context, pod *corev1.Pod, node string) (bool, error) {
	if !s.verdict("bind", pod.Name).OK() {
		return false, errors.New("not bound")
	}
	s.cluster.mu.Lock()
	binds := s.binds
	s.cluster.mu.Unlock()
	if !binds {
		return false, nil
	}
	return true, s.cluster.bind(ctx, pod, node)
}

func (s *steps) PostBind(_ context.Context, pod *corev1.Pod, _ string) { s.note("postbind", pod.Name) }

// extended is a cluster with one node, which has room for one pod, and the extensions a and b.
func extended(t *testing.T) (c *cluster, a, b *steps) {
	c = newCluster(t)
	c.nodes.Put(node("n", "1", "1Gi", "1"))
	a, b = &steps{name: "a", cluster: c}, &steps{name: "b", cluster: c}
	c.change = func(config *schedule.Config) { config.Extensions = []schedule.Extension{a, b} }
	return c, a, b
}

// TestExtensionSteps checks the order of the steps, and that one extension can take the binding over.
func TestExtensionSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, b := extended(t)
		b.binds = true
		c.pods.Put(pod("p", "", ""))
		c.run(func() {
			c.expect(0, "0s a reserve p", "0s b reserve p", "0s a permit p", "0s b permit p", "0s a prebind p", "0s b prebind p",
				"0s a bind p", "0s b bind p", "0s p on n", "0s a postbind p", "0s b postbind p")
		})
	})
}

// TestExtensionFails checks for each step that the failure of one extension undoes the decision, in reverse
// order, what is said of it, and when the pod is tried again.
func TestExtensionFails(t *testing.T) {
	const unschedulable = "p PodScheduled Unschedulable: 0/1 nodes are available: 1 refused in "
	const failed = "p PodScheduled SchedulerError: running "
	for _, test := range []struct {
		step    string
		before  []string
		message string
		parked  bool
	}{
		{"reserve", []string{"a reserve p", "b reserve p"}, unschedulable + "reserve.", true},
		{"permit", []string{"a reserve p", "b reserve p", "a permit p", "b permit p"}, unschedulable + "permit.", true},
		{"prebind", []string{"a reserve p", "b reserve p", "a permit p", "b permit p", "a prebind p", "b prebind p"},
			failed + `PreBind plugin "b": not ready`, false},
		{"bind", []string{"a reserve p", "b reserve p", "a permit p", "b permit p", "a prebind p", "b prebind p", "a bind p", "b bind p"},
			failed + `Bind plugin "b": not bound`, false},
	} {
		t.Run(test.step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, b := extended(t)
				b.refuse = map[string]bool{test.step: true}
				c.pods.Put(pod("p", "", ""))
				c.run(func() {
					var attempt []string
					for _, line := range append(test.before, "b unreserve p", "a unreserve p") {
						attempt = append(attempt, "0s "+line)
					}
					c.expect(0, append(attempt, "0s "+test.message)...)
					if test.parked {
						c.expect(time.Minute)
					}
					b.set(func() { b.refuse, b.binds = nil, true })
					c.nodes.Put(node("m", "1", "1Gi", "0")) // an event
					time.Sleep(2 * time.Second)
					synctest.Wait()
					if p, _ := c.pods.Get("default/p"); p.Spec.NodeName != "n" {
						t.Errorf("p is on %q", p.Spec.NodeName)
					}
				})
			})
		})
	}
}

// TestWaiting checks that a pod that waits keeps its room, until all extensions have allowed it.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, b := extended(t)
		a.wait, b.wait = time.Minute, time.Hour
		var waiting *schedule.Waiting
		b.permit = func(p *schedule.PodInfo, w *schedule.Waiting) {
			if waiting = w; !w.Allow(p, "nobody") { // before the pod waits
				t.Error("the pod is not there yet")
			}
		}
		c.pods.Put(pod("p", "", ""))
		c.run(func() {
			c.expect(time.Second, "0s a reserve p", "0s b reserve p", "0s a permit p", "0s b permit p")
			c.pods.Put(pod("q", "", ""))
			c.expect(time.Second, "1s q PodScheduled Unschedulable: 0/1 nodes are available: 1 Too many pods.")
			var p *schedule.PodInfo
			for one := range waiting.All() {
				p = one.Pod
				if got := fmt.Sprint(one.Node, " ", one.For, " ", time.Since(one.Since)); got != "n [a b] 2s" {
					t.Errorf("waiting: %s", got)
				}
			}
			waiting.Allow(p, "b")
			c.expect(time.Second)
			waiting.Allow(p, "a")
			c.expect(0, "3s a prebind p", "3s b prebind p", "3s a bind p", "3s b bind p", "3s p on n", "3s a postbind p", "3s b postbind p")
			if waiting.Allow(p, "a") || waiting.Refuse(p, "a", "too late") {
				t.Error("the pod still waits")
			}
		})
	})
}

// TestWaitingTooLong checks how a wait ends without a permission: after the shorter of two times, by a
// refusal, and with the pod.
func TestWaitingTooLong(t *testing.T) {
	begin := []string{"0s a reserve p", "0s b reserve p", "0s a permit p", "0s b permit p"}
	for name, test := range map[string]struct {
		wait time.Duration
		end  func(c *cluster, p *schedule.PodInfo, w *schedule.Waiting)
		want []string
	}{
		"time": {3 * time.Second, nil, []string{"3s b unreserve p", "3s a unreserve p",
			"3s p PodScheduled Unschedulable: 0/1 nodes are available: 1 rejected due to timeout after waiting 3s at plugin b."}},
		"refusal": {time.Hour, func(_ *cluster, p *schedule.PodInfo, w *schedule.Waiting) { w.Refuse(p, "a", "it is too late") },
			[]string{"2s b unreserve p", "2s a unreserve p", "2s p PodScheduled Unschedulable: 0/1 nodes are available: 1 it is too late."}},
		"deletion": {time.Hour, func(c *cluster, _ *schedule.PodInfo, _ *schedule.Waiting) { c.pods.Delete("default/p") },
			[]string{"2s b unreserve p", "2s a unreserve p"}},
		"bound by another scheduler": {time.Hour, func(c *cluster, p *schedule.PodInfo, _ *schedule.Waiting) { c.pods.Put(on(p.Pod, "m")) },
			[]string{"2s b unreserve p", "2s a unreserve p"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, a, b := extended(t)
				a.wait, b.wait = 2*time.Hour, test.wait
				var waiting *schedule.Waiting
				var waits *schedule.PodInfo
				b.permit = func(p *schedule.PodInfo, w *schedule.Waiting) { waiting, waits = w, p }
				c.pods.Put(pod("p", "", ""))
				c.run(func() {
					c.expect(2*time.Second, begin...)
					if test.end != nil {
						test.end(c, waits, waiting)
					}
					c.expect(time.Second+time.Second/2, test.want...)
					// The room is free again.
					b.set(func() { a.wait, b.wait, b.permit, b.binds = 0, 0, nil, true })
					c.pods.Delete("default/p")
					c.pods.Put(pod("q", "", ""))
					time.Sleep(time.Second)
					synctest.Wait()
					if q, _ := c.pods.Get("default/q"); q.Spec.NodeName != "n" {
						t.Errorf("q is on %q", q.Spec.NodeName)
					}
				})
			})
		})
	}
}

// TestMaxWait checks that no extension keeps a pod waiting for longer than kube-scheduler would.
func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, b := extended(t)
		b.wait = time.Hour
		c.pods.Put(pod("p", "", ""))
		c.run(func() {
			c.expect(15*time.Minute, "0s a reserve p", "0s b reserve p", "0s a permit p", "0s b permit p", "900s b unreserve p", "900s a unreserve p",
				"900s p PodScheduled Unschedulable: 0/1 nodes are available: 1 rejected due to timeout after waiting 15m0s at plugin b.")
		})
	})
}

// TestEndWhileWaiting checks that a run that ends binds no pod that waits and undoes what was reserved, and
// that the scheduler can run again.
func TestEndWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, b := extended(t)
		b.wait = time.Hour
		c.pods.Put(pod("p", "", ""))
		for range 2 {
			c.run(func() {})
			c.expect(0, "0s a reserve p", "0s b reserve p", "0s a permit p", "0s b permit p", "0s b unreserve p", "0s a unreserve p")
		}
	})
}

// TestPreemptsWaiting checks that a pod of higher priority takes the room of one that waits, which does not
// end for that.
func TestPreemptsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := preempting(t)
		change := c.change
		c.nodes.Put(node("n", "1", "1Gi", "1"))
		a := &steps{name: "a", cluster: c, wait: time.Minute}
		c.change = func(config *schedule.Config) {
			change(config)
			config.Extensions = []schedule.Extension{a}
		}
		c.pods.Put(prior("p", "", 0))
		c.run(func() {
			c.expect(0, "0s a reserve p", "0s a permit p")
			a.set(func() { a.wait = 0 })
			c.pods.Put(prior("urgent", "", 10))
			c.expect(2*time.Second, "0s urgent PodScheduled Unschedulable: 0/1 nodes are available: 1 Too many pods.",
				`0s urgent nominated "n"`, "0s a unreserve p",
				"0s p PodScheduled SchedulerError: waiting on permit for pod: preempted",
				"1s a reserve urgent", "1s a permit urgent", "1s a prebind urgent", "1s a bind urgent", "1s urgent on n", "1s a postbind urgent",
				"1s p PodScheduled Unschedulable: 0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")
		})
	})
}

// wakes is an extension that says which events matter.
type wakes struct{ *steps }

func (wakes) Wakes(_ *schedule.PodInfo, e schedule.Event) bool {
	_, now, ok := schedule.Changed[*corev1.Node](e)
	return ok && now != nil && now.Labels["wake"] != ""
}

// TestExtensionWakes checks that a pod is tried again only after an event that the extension names, but not
// forgotten if there were events while it waited.
func TestExtensionWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, _ := extended(t)
		c.change = func(config *schedule.Config) { config.Extensions = []schedule.Extension{wakes{a}} }
		a.refuse = map[string]bool{"permit": true}
		c.pods.Put(pod("p", "", ""))
		const refused = "p PodScheduled Unschedulable: 0/1 nodes are available: 1 refused in permit."
		c.run(func() {
			c.expect(10*time.Second, "0s a reserve p", "0s a permit p", "0s a unreserve p", "0s "+refused)
			c.nodes.Put(node("n", "2", "1Gi", "1"))
			c.expect(10 * time.Second)
			awake := node("n", "2", "1Gi", "1")
			awake.Labels = map[string]string{"wake": "yes"}
			a.set(func() { a.refuse, a.wait, a.binds = nil, 5*time.Second, true })
			c.nodes.Put(awake)
			c.expect(time.Second, "20s a reserve p", "20s a permit p")
			c.nodes.Put(node("n", "3", "1Gi", "1"))
			c.expect(4*time.Second, "25s a unreserve p",
				"25s p PodScheduled Unschedulable: 0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin a.")
			a.set(func() { a.wait = 0 })
			c.expect(2*time.Second, "27s a reserve p", "27s a permit p", "27s a prebind p", "27s a bind p", "27s p on n", "27s a postbind p")
		})
	})
}
