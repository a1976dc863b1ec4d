package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a scheduler with what is around it. Time is that of synctest.
type cluster struct {
	*testing.T
	nodes *localcache.Map[*corev1.Node]
	pods  *localcache.Map[*corev1.Pod]
	start time.Time
	// predicates are asked instead of the default ones; change, if not nil, changes the rest.
	predicates []schedule.Predicate
	change     func(*schedule.Config)

	mu sync.Mutex
	// log has what the scheduler did, each with the seconds since the start.
	log []string
	// tries counts how often a node was looked at.
	tries int
	// fail has errors for the next binds of a pod.
	fail map[string][]error
}

func newCluster(t *testing.T) *cluster {
	return &cluster{T: t, predicates: predicates.Default(), nodes: localcache.NewMap[*corev1.Node](), pods: localcache.NewMap[*corev1.Pod](), start: time.Now(), fail: make(map[string][]error)}
}

func (c *cluster) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf("%gs ", time.Since(c.start).Seconds())+fmt.Sprintf(format, args...))
}

func (c *cluster) bind(_ context.Context, p *corev1.Pod, node string) error {
	c.mu.Lock()
	if errs := c.fail[p.Name]; len(errs) > 0 {
		c.fail[p.Name] = errs[1:]
		c.note("%s not bound", p.Name)
		c.mu.Unlock()
		return errs[0]
	}
	c.note("%s on %s", p.Name, node)
	c.mu.Unlock()
	c.pods.Put(on(p, node)) // the server does it and the cache receives it
	return nil
}

func (c *cluster) condition(_ context.Context, p *corev1.Pod, condition corev1.PodCondition) error {
	c.mu.Lock()
	c.note("%s %s %s: %s", p.Name, condition.Type, condition.Reason, condition.Message)
	c.mu.Unlock()
	if known, ok := c.pods.Get(localcache.KeyOf(p)); ok {
		known = known.DeepCopy()
		known.Status.Conditions = []corev1.PodCondition{condition}
		c.pods.Put(known)
	}
	return nil
}

// run runs a scheduler while f runs.
func (c *cluster) run(f func()) {
	count := schedule.PredicateFunc("Count", func(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict {
		c.tries++
		return schedule.Fits
	})
	config := schedule.Config{
		Predicates: append([]schedule.Predicate{count}, c.predicates...),
		Priorities: priorities.Default(),
		Nodes:      c.nodes, Pods: c.pods, Bind: c.bind, SetCondition: c.condition,
		Parallel: 1, // the log is in order
		Seed:     1,
	}
	if c.change != nil {
		c.change(&config)
	}
	s, err := schedule.New(config)
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan error, 1) // one answer
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	f()
	cancel()
	if err := <-done; err != nil {
		c.Error(err)
	}
}

// expect lets time pass and compares what was done.
func (c *cluster) expect(after time.Duration, want ...string) {
	c.Helper()
	time.Sleep(after) // of the bubble's clock
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.log, want) {
		c.Errorf("log:\n  %s\nwant:\n  %s", strings.Join(c.log, "\n  "), strings.Join(want, "\n  "))
	}
	c.log = nil
}

func TestPriorityThenAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		now := time.Now()
		for i, name := range []string{"young", "old", "important"} {
			p := pod(name, "", "")
			p.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(-i) * time.Minute))
			if name == "important" {
				p.Spec.Priority = new(int32(1000))
				p.CreationTimestamp = metav1.NewTime(now)
			}
			c.pods.Put(p)
		}
		// With room for one after the other only, binds take place in order.
		c.nodes.Put(node("a", "1", "1Gi", "1"))
		c.run(func() {
			c.expect(0, "0s important on a", "0s old PodScheduled Unschedulable: 0/1 nodes are available: 1 Too many pods.",
				"0s young PodScheduled Unschedulable: 0/1 nodes are available: 1 Too many pods.")
			c.pods.Delete("default/important")
			c.expect(time.Second, "1s old on a")
		})
	})
}

func TestParkedPodsWakeWhenItMayHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.nodes.Put(node("a", "1", "1Gi", "110"))
		c.pods.Put(on(pod("big", "800m", "1Mi"), "a"))
		c.pods.Put(pod("web", "500m", "1Mi"))
		c.run(func() {
			c.expect(0, "0s web PodScheduled Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.")
			beat := node("a", "1", "1Gi", "110")
			beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
			c.nodes.Put(beat)
			c.expect(time.Minute) // a heartbeat wakes no pod
			c.nodes.Put(node("b", "100m", "1Gi", "110"))
			c.expect(0, "60s web PodScheduled Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.")
			c.pods.Delete("default/big")
			c.expect(time.Second) // the second failure backs off for two seconds
			c.expect(time.Second, "62s web on a")
		})
	})
}

func TestFlushAndUnchangedCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.nodes.Put(node("a", "100m", "1Gi", "110"))
		c.pods.Put(pod("web", "500m", "1Mi"))
		c.run(func() {
			c.expect(0, "0s web PodScheduled Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.")
			// Nothing happens, but the pod is tried every five minutes; a condition
			// that says the same is not stored again.
			c.expect(59 * time.Minute)
		})
		if c.tries != 12 {
			t.Errorf("tried %d times", c.tries)
		}
	})
}

func TestFailedBindGivesBackAndRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.nodes.Put(node("a", "1", "1Gi", "110"))
		broken := errors.New("no luck")
		c.fail["one"] = []error{broken, broken, broken}
		one := pod("one", "1", "1Mi")
		one.Spec.Priority = new(int32(1))
		c.pods.Put(one)
		c.run(func() {
			const failed = `one PodScheduled SchedulerError: running Bind plugin "DefaultBinder": no luck`
			c.expect(0, "0s one not bound", "0s "+failed)
			c.expect(time.Second, "1s one not bound")
			c.pods.Put(pod("two", "1", "1Mi")) // gets what one does not use
			c.expect(time.Second, "1s two on a")
			c.expect(10*time.Second, "3s one PodScheduled Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.")
			c.pods.Delete("default/two")
			c.expect(0, "12s one not bound", "12s "+failed)
			c.expect(10*time.Second, "20s one on a")
		})
	})
}

func TestWhatIsNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.nodes.Put(node("a", "1", "1Gi", "110"))
		other := pod("other", "", "")
		other.Spec.SchedulerName = "somebody"
		going := pod("going", "", "")
		going.DeletionTimestamp = new(metav1.Now())
		gated := pod("gated", "", "")
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
		over := pod("over", "", "")
		over.Status.Phase = corev1.PodFailed
		for _, p := range []*corev1.Pod{other, going, gated, over, on(pod("bound", "", ""), "a")} {
			c.pods.Put(p)
		}
		c.run(func() {
			c.expect(time.Hour)
			open := gated.DeepCopy()
			open.Spec.SchedulingGates = nil
			c.pods.Put(open)
			c.expect(0, "3600s gated on a")
		})
	})
}

func TestPodThatGoesWhileItIsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.nodes.Put(node("a", "1", "1Gi", "1"))
		c.pods.Put(pod("web", "", ""))
		hold, bound := make(chan struct{}), make(chan string, 2) // as many as are bound
		s, err := schedule.New(schedule.Config{
			Predicates: predicates.Default(), Nodes: c.nodes, Pods: c.pods,
			Bind: func(_ context.Context, p *corev1.Pod, node string) error {
				if string(p.UID) == "uid-web" {
					<-hold
					return errors.New("gone")
				}
				bound <- string(p.UID)
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // one answer
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		c.pods.Delete("default/web") // while Bind waits
		again := pod("web", "", "")
		again.UID = "second"
		c.pods.Put(again) // same name: binds of one name do not overtake each other
		synctest.Wait()
		select {
		case <-bound:
			t.Error("bound while the first of the name was being bound")
		default:
		}
		close(hold)
		synctest.Wait()
		if uid := <-bound; uid != "second" {
			t.Errorf("bound %s", uid)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	nodes, pods := localcache.NewMap[*corev1.Node](), localcache.NewMap[*corev1.Pod]()
	bind := func(context.Context, *corev1.Pod, string) error { return nil }
	for _, c := range []schedule.Config{
		{},
		{Nodes: nodes, Pods: pods},
		{Nodes: nodes, Pods: pods, Bind: bind, Parallel: -1},
		{Nodes: nodes, Pods: pods, Bind: bind, Priorities: []schedule.Weighted{{Priority: priorities.LeastAllocated(), Weight: -1}}},
		{Nodes: nodes, Pods: pods, Bind: bind, InitialBackoff: -1},
		{Nodes: nodes, Pods: pods, Bind: bind, InitialBackoff: 2, MaxBackoff: 1},
		{Nodes: nodes, Pods: pods, Bind: bind, Extensions: []schedule.Extension{nil}},
		{Nodes: nodes, Pods: pods, Bind: bind, Extensions: []schedule.Extension{annotated}},
		{Nodes: nodes, Pods: pods, Bind: bind, Extensions: []schedule.Extension{preBinder(nil), preBinder(nil)}},
	} {
		if _, err := schedule.New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// TestBackoff checks how long a pod waits whose binds fail, and which limits New refuses.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.nodes.Put(node("a", "1", "1Gi", "10"))
		failed := errors.New("failed")
		c.fail["one"] = []error{failed, failed, failed, failed}
		c.change = func(config *schedule.Config) { config.InitialBackoff, config.MaxBackoff = 2*time.Second, 3*time.Second }
		c.run(func() {
			c.pods.Put(pod("one", "1", "1Gi"))
			c.expect(time.Minute, "0s one not bound", `0s one PodScheduled SchedulerError: running Bind plugin "DefaultBinder": failed`, "2s one not bound", "5s one not bound", "8s one not bound", "11s one on a")
		})
	})
	for _, test := range []struct {
		first, most time.Duration
		valid       bool
	}{
		{0, 0, true}, {time.Minute, 0, true}, {time.Second, time.Second, true}, {0, time.Millisecond, false}, {-1, 0, false}, {0, -1, false},
	} {
		_, err := schedule.New(schedule.Config{
			Nodes: localcache.NewMap[*corev1.Node](), Pods: localcache.NewMap[*corev1.Pod](),
			Bind:           func(context.Context, *corev1.Pod, string) error { return nil },
			InitialBackoff: test.first, MaxBackoff: test.most,
		})
		if (err == nil) != test.valid {
			t.Errorf("New() with InitialBackoff %v and MaxBackoff %v: %v, want valid %t", test.first, test.most, err, test.valid)
		}
	}
}
