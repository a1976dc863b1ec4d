package gang_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/gang"
	"github.com/planekit/planekit/schedule/predicates"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node returns a node with room for pods.
func node(name string, pods int64) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI)},
	}}
}

// pod returns a pod of a group.
func pod(name, group, minimum string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name),
			Labels: map[string]string{gang.NameLabel: group, gang.MinAvailable: minimum}},
		Spec: corev1.PodSpec{SchedulerName: "default-scheduler"},
	}
}

// on returns a pod as it is on a node.
func on(p *corev1.Pod, node string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

// Three workers start together. The fourth pod waits for another one of its group.
func Example() {
	nodes := localcache.NewMap(node("a", 10)) // in a cluster: informers
	pods := localcache.NewMap(pod("worker-1", "workers", "3"), pod("worker-2", "workers", "3"), pod("alone", "pair", "2"))
	gangs, err := gang.New(gang.Config{Pods: pods})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	bound := map[string]bool{}
	scheduler, err := schedule.New(schedule.Config{
		Predicates: append([]schedule.Predicate{gangs}, predicates.Default()...),
		Sources:    gangs.Sources(),
		Nodes:      nodes,
		Pods:       pods,
		Bind: func(_ context.Context, pod *corev1.Pod, node string) error {
			mu.Lock()
			defer mu.Unlock()
			if bound[pod.Name] = true; len(bound) == 3 {
				cancel()
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	pods.Put(pod("worker-3", "workers", "3"))
	if err := scheduler.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(slices.Sorted(maps.Keys(bound)))
	// Output: [worker-1 worker-2 worker-3]
}

// world is a scheduler with gangs. Time is that of synctest.
type world struct {
	*testing.T
	nodes *localcache.Map[*corev1.Node]
	pods  *localcache.Map[*corev1.Pod]
	start time.Time
	// fail, if not nil, is asked before a pod is bound.
	fail func(*corev1.Pod) error

	mu sync.Mutex
	// log has what was bound and said, each with the seconds since the start.
	log []string
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf("%gs ", time.Since(w.start).Seconds())+fmt.Sprintf(format, args...))
}

// run runs a scheduler in a bubble while f runs. It begins with a node that has room for pods.
func run(t *testing.T, room int64, pods []*corev1.Pod, f func(w *world)) {
	w := &world{T: t, nodes: localcache.NewMap(node("n", room)), pods: localcache.NewMap(pods...), start: time.Now()}
	gangs, err := gang.New(gang.Config{Pods: w.pods})
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedule.New(schedule.Config{
		Predicates: append([]schedule.Predicate{gangs}, predicates.Default()...),
		Sources:    gangs.Sources(), Nodes: w.nodes, Pods: w.pods, Seed: 1,
		Bind: func(_ context.Context, p *corev1.Pod, node string) error {
			w.mu.Lock()
			fail := w.fail
			w.mu.Unlock()
			if fail != nil {
				if err := fail(p); err != nil {
					return err
				}
			}
			known, ok := w.pods.Get(localcache.KeyOf(p))
			if !ok || known.UID != p.UID {
				return fmt.Errorf("%s is gone", p.Name)
			}
			w.note("%s on %s", p.Name, node)
			w.pods.Put(on(p, node))
			return nil
		},
		SetCondition: func(_ context.Context, p *corev1.Pod, c corev1.PodCondition) error {
			w.note("%s: %s", p.Name, c.Message)
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
	f(w)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// put adds or changes a pod and waits until the scheduler has done what it can.
func (w *world) put(p *corev1.Pod) {
	w.pods.Put(p)
	synctest.Wait()
}

// room sets how many pods have room.
func (w *world) room(pods int64) {
	w.nodes.Put(node("n", pods))
	synctest.Wait()
}

// expect lets time pass and compares what was done since, in any order.
func (w *world) expect(after time.Duration, want ...string) {
	w.Helper()
	time.Sleep(after) // of the bubble's clock
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.log)
	slices.Sort(want)
	if !slices.Equal(w.log, want) {
		w.Errorf("log:\n  %s\nwant:\n  %s", strings.Join(w.log, "\n  "), strings.Join(want, "\n  "))
	}
	w.log = nil
}

const (
	nothing = "0/1 nodes are available: 1 Too many pods."
	timeout = "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin Coscheduling."
	others  = "0/1 nodes are available: 1 another pod of the pod group could not start."
)

func few(pod string, exist, minimum int) string {
	return fmt.Sprintf("%s: 0/1 nodes are available: pre-filter pod %s cannot find enough sibling pods, "+
		"current pods number: %d, minMember of group: %d.", pod, pod, exist, minimum)
}

// members returns pods of a group with these names, the first ones older.
func members(group, minimum string, names ...string) (list []*corev1.Pod) {
	for i, name := range names {
		p := pod(name, group, minimum)
		p.CreationTimestamp = metav1.Unix(int64(i), 0)
		list = append(list, p)
	}
	return list
}

// TestTogether checks that pods wait until enough of their group exist, that those that are bound count, and
// those that end or are deleted do not.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, 10, members("a", "3", "a1", "a2"), func(w *world) {
			w.expect(time.Minute, "0s "+few("a1", 2, 3), "0s "+few("a2", 2, 3))
			w.put(pod("a3", "a", "3"))
			w.expect(0, "60s a1 on n", "60s a2 on n", "60s a3 on n")
			w.put(pod("a4", "a", "3"))
			w.expect(0, "60s a4 on n")
			w.pods.Delete("default/a4")
			w.pods.Delete("default/a3")
			ended := on(pod("a2", "a", "3"), "n")
			ended.Status.Phase = corev1.PodSucceeded
			w.put(ended)
			w.put(pod("a5", "a", "3"))
			w.expect(time.Minute, "60s "+few("a5", 2, 3))
			w.put(pod("a6", "a", "3"))
			w.expect(0, "120s a5 on n", "120s a6 on n")
		})
	})
}

// TestRoomComes checks that a group keeps its room while it waits, and starts when there is enough.
func TestRoomComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, 2, members("a", "3", "a1", "a2", "a3"), func(w *world) {
			w.expect(59*time.Second, "0s a3: "+nothing)
			w.room(3)
			w.expect(0, "59s a1 on n", "59s a2 on n", "59s a3 on n")
		})
	})
}

// TestTimeout checks that a group without enough room lets it go.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, 2, members("a", "3", "a1", "a2", "a3"), func(w *world) {
			w.expect(58*time.Second, "0s a3: "+nothing)
			w.put(pod("free", "", ""))
			w.expect(2*time.Second, "58s free: "+nothing, "60s free on n", "60s a1: "+timeout, "60s a2: "+timeout)
		})
	})
}

// TestHalves checks that of two groups that each hold a half of the room, one starts, and the other one when
// that has gone.
func TestHalves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods []*corev1.Pod
		for i := range 3 {
			for j, group := range []string{"a", "b"} {
				p := pod(fmt.Sprint(group, i), group, "3")
				p.CreationTimestamp = metav1.Unix(int64(2*i+j), 0)
				pods = append(pods, p)
			}
		}
		run(t, 4, pods, func(w *world) { // room for 2 of each
			for range 2 {
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				started := w.started()
				if len(started) != 1 {
					t.Fatalf("started: %v", started)
				}
				for group := range started {
					for i := range 3 {
						w.pods.Delete(fmt.Sprint("default/", group, i))
					}
				}
			}
			if list := slices.Collect(w.pods.All()); len(list) > 0 {
				t.Errorf("%d pods are left", len(list))
			}
		})
	})
}

// started returns the groups with bound pods, and how many.
func (w *world) started() map[string]int {
	started := map[string]int{}
	for p := range w.pods.All() {
		if p.Spec.NodeName != "" {
			started[p.Labels[gang.NameLabel]]++
		}
	}
	return started
}

// TestLeavesTogether checks that a group lets its room go when one of its pods is deleted.
func TestLeavesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, 2, members("a", "3", "a1", "a2", "a3"), func(w *world) {
			w.expect(500*time.Millisecond, "0s a3: "+nothing)
			w.pods.Delete("default/a1")
			w.expect(0, "0.5s a2: "+others)
			w.put(pod("free", "", ""))
			w.expect(0, "0.5s free on n")
		})
	})
}

// TestPriority checks that the pods of a group with the highest priority come first.
func TestPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := members("a", "2", "low", "high", "middle")
		for i, p := range pods {
			p.Spec.Priority = new([]int32{0, 10, 5}[i])
		}
		run(t, 2, pods, func(w *world) { w.expect(0, "0s high on n", "0s middle on n", "0s low: "+nothing) })
	})
}

// TestSharedNumber checks that the largest number counts, and that a group can start when it gets smaller.
func TestSharedNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, 9, append(members("a", "2", "a1", "a2"), pod("a3", "a", "4")), func(w *world) {
			w.expect(time.Minute, "0s "+few("a1", 3, 4), "0s "+few("a2", 3, 4), "0s "+few("a3", 3, 4))
			w.pods.Delete("default/a3")
			w.expect(0, "60s a1 on n", "60s a2 on n")
		})
	})
}

// TestFailedBind checks that a pod whose binding fails is tried again, while the others have started.
func TestFailedBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, 2, nil, func(w *world) {
			failures := 1
			w.mu.Lock()
			w.fail = func(p *corev1.Pod) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if p.Name == "a2" && failures > 0 {
					failures--
					return errors.New("no luck")
				}
				return nil
			}
			w.mu.Unlock()
			w.put(pod("a1", "a", "2"))
			w.expect(time.Second, "0s "+few("a1", 1, 2))
			w.put(pod("a2", "a", "2"))
			w.expect(time.Second, "1s a1 on n", `1s a2: running Bind plugin "DefaultBinder": no luck`, "2s a2 on n")
		})
	})
}

// TestLargeGroup checks that pods that wait do not keep other pods from being decided about, of which only a
// few are bound at the same time.
func TestLargeGroup(t *testing.T) {
	const size = 300
	synctest.Test(t, func(t *testing.T) {
		var pods []*corev1.Pod
		for i := range size {
			pods = append(pods, pod(fmt.Sprint("p", i), "a", fmt.Sprint(size)))
		}
		run(t, size, pods, func(w *world) {
			time.Sleep(time.Second)
			synctest.Wait()
			if n := w.started()["a"]; n != size {
				t.Errorf("%d pods have started", n)
			}
		})
	})
}

// TestFromLabels checks which labels and annotations name a group.
func TestFromLabels(t *testing.T) {
	for _, test := range []struct {
		labels, annotations map[string]string
		want                gang.Group
		invalid             bool
	}{
		{nil, nil, gang.Group{}, false},
		{map[string]string{gang.MinAvailable: "x"}, nil, gang.Group{}, false}, // no group
		{map[string]string{gang.NameLabel: "a"}, nil, gang.Group{Name: "a"}, false},
		{map[string]string{gang.NameLabel: "a", gang.GroupLabel: "b", gang.MinAvailable: "3"}, nil, gang.Group{Name: "a", Min: 3}, false},
		{map[string]string{gang.GroupLabel: "b"}, map[string]string{gang.MinAvailable: "4"}, gang.Group{Name: "b", Min: 4}, false},
		{map[string]string{gang.GroupLabel: "b"}, map[string]string{gang.MinAvailable: "-1"}, gang.Group{}, true},
		{map[string]string{gang.GroupLabel: "b", gang.MinAvailable: "9999999999"}, nil, gang.Group{}, true},
	} {
		got, err := gang.FromLabels(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: test.labels, Annotations: test.annotations}})
		if (err != nil) != test.invalid || err == nil && got != test.want {
			t.Errorf("FromLabels() of the labels %v and annotations %v = %+v, %v, want %+v, invalid %t",
				test.labels, test.annotations, got, err, test.want, test.invalid)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		run(t, 2, []*corev1.Pod{pod("a", "a", "two")}, func(w *world) {
			w.expect(0, `0s a: 0/1 nodes are available: pod has an invalid number pod-group.scheduling.sigs.k8s.io/min-available: "two".`)
		})
	})
}

func TestConfig(t *testing.T) {
	pods := localcache.NewMap[*corev1.Pod]()
	for _, c := range []gang.Config{{}, {Pods: pods, Timeout: -1}} {
		if _, err := gang.New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}
