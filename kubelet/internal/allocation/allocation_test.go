package allocation

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/resize"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// node is a node with pods, whose kubelet can be restarted.
type node struct {
	dir   string
	milli int64

	mu     sync.Mutex
	pods   map[types.UID]*corev1.Pod
	events []string
	woken  map[types.UID]int
	meters []string // what was accepted, and why not
}

func newNode(t *testing.T, milli int64) *node {
	return &node{dir: t.TempDir(), milli: milli, pods: map[types.UID]*corev1.Pod{}, woken: map[types.UID]int{}}
}

func (n *node) manager() *Manager {
	return New(Config{
		Directory: func(uid types.UID) string { return filepath.Join(n.dir, string(uid)) },
		Pods: func() []*corev1.Pod {
			n.mu.Lock()
			defer n.mu.Unlock()
			var list []*corev1.Pod
			for _, pod := range n.pods {
				list = append(list, pod)
			}
			return list
		},
		Allocatable: func() corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(n.milli, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Gi")}
		},
		Event: func(pod *corev1.Pod, kind, reason, message string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, kind+" "+reason+" "+message)
		},
		Accepted:   func(trigger string) { n.meters = append(n.meters, trigger) },
		Infeasible: func(detail string) { n.meters = append(n.meters, detail) },
		Wake: func(uid types.UID) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.woken[uid]++
		},
	})
}

func (n *node) put(pod *corev1.Pod) *corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[pod.UID] = pod
	return pod
}

func (n *node) remove(uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pods, types.UID(uid))
}

// pod adds a pod with one container, or a new generation of it.
func (n *node) pod(name string, milli int64) *corev1.Pod {
	pod := &corev1.Pod{}
	if old := n.pods[types.UID(name)]; old != nil {
		pod = old.DeepCopy()
	}
	pod.Namespace, pod.Name, pod.UID = "default", name, types.UID(name)
	pod.Generation++
	pod.Status.Phase = corev1.PodRunning
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)},
	}}}
	return n.put(pod)
}

func (n *node) said(t *testing.T, prefix string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.events) == 0 || !strings.HasPrefix(n.events[len(n.events)-1], prefix) {
		t.Errorf("events %q, want %q last", n.events, prefix)
	}
}

func milli(pod *corev1.Pod) int64 {
	list := resize.Requests(pod)
	return list.Cpu().MilliValue()
}

func TestResize(t *testing.T) {
	n := newNode(t, 1000)
	m := n.manager()
	if got := m.Sync(n.pod("a", 300)); milli(got) != 300 {
		t.Fatal(milli(got))
	}
	m.Sync(n.pod("b", 400))
	// It fits.
	a := m.Sync(n.pod("a", 600))
	if milli(a) != 600 {
		t.Fatal(milli(a))
	}
	n.said(t, `Normal ResizeStarted Pod resize started: {"containers":[{"name":"c","resources":{"requests":{"cpu":"600m"}}}],"generation":2}`)
	if pending, progress := m.Conditions("a"); pending != nil || progress == nil || progress.Reason != "" || progress.ObservedGeneration != 2 || progress.Status != corev1.ConditionTrue {
		t.Errorf("conditions %v %v", pending, progress)
	}
	m.Progress(a, true)
	m.Failed(a, "it hurts")
	n.said(t, `Warning ResizeError Pod resize error: {"containers":[{"name":"c","resources":{"requests":{"cpu":"600m"}}}],"generation":2,"error":"it hurts"}`)
	events := len(n.events)
	m.Failed(a, "it hurts")
	m.Progress(a, true)
	if _, progress := m.Conditions("a"); progress == nil || progress.Reason != "Error" || progress.Message != "it hurts" || len(n.events) != events {
		t.Errorf("condition %v, events %v", progress, n.events)
	}
	m.Progress(a, false)
	n.said(t, `Normal ResizeCompleted Pod resize completed: {"containers":[{"name":"c","resources":{"requests":{"cpu":"600m"}}}],"generation":2}`)
	if _, progress := m.Conditions("a"); progress != nil {
		t.Error(progress)
	}
	// It does not fit any more.
	const message = "Node didn't have enough resource: cpu, requested: 401, used: 600, capacity: 1000"
	if b := m.Sync(n.pod("b", 401)); milli(b) != 400 {
		t.Fatal(milli(b))
	}
	n.said(t, `Warning ResizeDeferred Pod resize OutOfcpu: {"containers":[{"name":"c","resources":{"requests":{"cpu":"401m"}}}],"generation":2,"error":"`+message+`"}`)
	if pending, _ := m.Conditions("b"); pending == nil || pending.Reason != "Deferred" || pending.Message != message || pending.ObservedGeneration != 2 {
		t.Error(pending)
	}
	// It is withdrawn.
	if b := m.Sync(n.pod("b", 400)); milli(b) != 400 {
		t.Fatal(milli(b))
	}
	if pending, _ := m.Conditions("b"); pending != nil {
		t.Error(pending)
	}
}

// TestRetry frees room in several ways.
func TestRetry(t *testing.T) {
	shrink := func(n *node) (old, pod *corev1.Pod) {
		old = n.pods["big"]
		return old, n.pod("big", 50)
	}
	for trigger, free := range map[string]func(n *node, m *Manager){
		TriggerRemoved: func(n *node, m *Manager) { n.remove("big"); m.Forget("big") },
		TriggerTerminated: func(n *node, m *Manager) {
			old := n.pods["big"]
			pod := n.put(old.DeepCopy())
			pod.Status.Phase = corev1.PodSucceeded
			m.PodChanged(old, pod)
		},
		TriggerUpdated: func(n *node, m *Manager) { // the pod's worker is faster than the cache
			old, pod := shrink(n)
			m.Sync(pod)
			m.PodChanged(old, pod)
		},
		TriggerResized:  func(n *node, m *Manager) { m.PodChanged(shrink(n)) },
		TriggerPeriodic: func(n *node, m *Manager) { n.remove("big"); time.Sleep(firstRetry) },
	} {
		t.Run(trigger, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, 1000)
				m := n.manager()
				m.Sync(n.pod("big", 700))
				high := int32(10)
				for _, name := range []string{"low", "high"} {
					pod := n.pod(name, 50)
					if name == "high" {
						pod.Spec.Priority = &high
					}
					m.Sync(pod)
				}
				for _, name := range []string{"low", "high"} { // low asks first
					if got := m.Sync(n.pod(name, 900)); milli(got) != 50 {
						t.Fatalf("%s has %d", name, milli(got))
					}
				}
				go m.Run(t.Context())
				synctest.Wait()
				clear(n.woken)
				free(n, m)
				synctest.Wait()
				if got := milli(m.Sync(n.pods["high"])); got != 900 {
					t.Errorf("high has %d", got)
				}
				if got := milli(m.Sync(n.pods["low"])); got != 50 {
					t.Errorf("low has %d", got)
				}
				if want := []string{trigger}; !slices.Equal(n.meters, want) {
					t.Errorf("accepted %v, want %v", n.meters, want)
				}
				if pending, progress := m.Counts(); pending["Deferred"] != 1 || len(pending) != 1 || progress == 0 {
					t.Errorf("%v pending, %d in progress", pending, progress)
				}
				if n.woken["high"] == 0 {
					t.Error("high was not woken")
				}
			})
		})
	}
}

func TestInfeasible(t *testing.T) {
	n := newNode(t, 1000)
	m := n.manager()
	m.config.StaticCPU = true
	pod := n.pod("a", 100)
	pod.Status.QOSClass = corev1.PodQOSGuaranteed
	m.Sync(pod)
	m.Sync(n.pod("a", 200))
	n.said(t, "Warning ResizeInfeasible Pod resize Infeasible: ")
	events := len(n.events)
	m.Sync(n.pods["a"])
	m.mu.Lock()
	m.decide(TriggerPeriodic)
	m.mu.Unlock()
	if want := []string{"guaranteed_pod_cpu_manager_static_policy"}; !slices.Equal(n.meters, want) {
		t.Errorf("%v, want %v", n.meters, want)
	}
	if pending, _ := m.Conditions("a"); pending == nil || pending.Reason != "Infeasible" || len(n.events) != events {
		t.Errorf("Conditions(\"a\") = %v with the events %q, want Infeasible and %d events", pending, n.events, events)
	}
}

// TestStopping drops what a pod asks for that is being stopped.
func TestStopping(t *testing.T) {
	n := newNode(t, 1000)
	m := n.manager()
	m.Sync(n.pod("big", 700))
	m.Sync(n.pod("a", 100))
	m.Sync(n.pod("a", 900))
	if got := m.Stopping(n.pods["a"]); milli(got) != 100 {
		t.Error(milli(got))
	}
	n.remove("big")
	m.mu.Lock()
	m.decide(TriggerPeriodic)
	m.mu.Unlock()
	if got := m.Stopping(n.pods["a"]); milli(got) != 100 {
		t.Errorf("a pod that stops got %d", milli(got))
	}
}

// TestRestartOrder decides about the more important pod first after a restart, whichever is synced
// first.
func TestRestartOrder(t *testing.T) {
	n := newNode(t, 1000)
	m := n.manager()
	high := int32(10)
	for _, name := range []string{"low", "high"} {
		m.Sync(n.pod(name, 100))
	}
	n.pod("low", 700)
	n.pod("high", 800).Spec.Priority = &high
	m = n.manager()
	if got := m.Sync(n.pods["low"]); milli(got) != 100 {
		t.Errorf("low has %d", milli(got))
	}
	if got := m.Sync(n.pods["high"]); milli(got) != 800 {
		t.Errorf("high has %d", milli(got))
	}
}

func TestRestart(t *testing.T) {
	n := newNode(t, 1000)
	m := n.manager()
	m.Sync(n.pod("big", 700))
	a := m.Sync(n.pod("a", 100))
	m.SetContainer("a", "c", a.Spec.Containers[0].Resources)
	m.SetCgroup("a", cgroup.Limits{Shares: 102})
	m.Sync(n.pod("a", 900))
	pod := n.pods["a"].DeepCopy()
	pending, _ := m.Conditions("a")
	pod.Status.Conditions = []corev1.PodCondition{*pending}
	n.put(pod)

	m = n.manager()
	n.events = nil
	if got := m.Peek(pod); got != pod {
		t.Errorf("a pod that was not seen yet has %d", milli(got))
	}
	if got := m.Sync(pod); milli(got) != 100 || milli(m.Peek(pod)) != 100 {
		t.Fatalf("after a restart the pod has %d", milli(got))
	}
	if now, _ := m.Conditions("a"); now == nil || !now.LastTransitionTime.Equal(&pending.LastTransitionTime) || len(n.events) > 0 {
		t.Errorf("condition %v, events %v", now, n.events)
	}
	actuated, limits := m.Actuated("a")
	if !resize.Same(actuated["c"], a.Spec.Containers[0].Resources) || limits == nil || limits.Shares != 102 {
		t.Errorf("actuated %v %v", actuated, limits)
	}
}

// TestDamage starts with files that cannot be used: the spec applies, and nothing is known to be
// actuated. The file is replaced.
func TestDamage(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"torn":      func(path string) error { return os.Truncate(path, 20) },
		"empty":     func(path string) error { return os.Truncate(path, 0) },
		"huge":      func(path string) error { return os.Truncate(path, 1<<40) },
		"other":     func(path string) error { return os.WriteFile(path, []byte(`{"checksum":1,"data":{}}`), 0o600) },
		"directory": func(path string) error { os.Remove(path); return os.Mkdir(path, 0o700) },
		"pipe":      func(path string) error { os.Remove(path); return syscall.Mkfifo(path, 0o600) },
		"link":      func(path string) error { os.Remove(path); return os.Symlink("/dev/zero", path) },
		"changed": func(path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(strings.Replace(string(text), "100m", "900m", 1)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 1000)
			m := n.manager()
			a := m.Sync(n.pod("a", 100))
			m.SetContainer("a", "c", a.Spec.Containers[0].Resources)
			if err := damage(filepath.Join(n.dir, "a", "resources.json")); err != nil {
				t.Fatal(err)
			}
			m = n.manager()
			if got := m.Sync(n.pod("a", 200)); milli(got) != 200 {
				t.Errorf("the pod has %d", milli(got))
			}
			if actuated, limits := m.Actuated("a"); len(actuated) > 0 || limits != nil {
				t.Errorf("actuated %v %v", actuated, limits)
			}
			if name == "directory" {
				return // it cannot be replaced
			}
			if got := n.manager().Sync(n.pod("a", 300)); milli(got) != 300 {
				t.Errorf("the pod has %d", milli(got))
			}
		})
	}
}

// TestUnwritable does not allocate what it cannot remember.
func TestUnwritable(t *testing.T) {
	n := newNode(t, 1000)
	m := n.manager()
	m.Sync(n.pod("a", 100))
	if err := os.RemoveAll(filepath.Join(n.dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := m.Sync(n.pod("a", 200)); milli(got) != 100 {
		t.Errorf("the pod has %d", milli(got))
	}
	if err := os.Remove(filepath.Join(n.dir, "a")); err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	m.decide(TriggerPeriodic)
	m.mu.Unlock()
	if got := m.Sync(n.pods["a"]); milli(got) != 200 {
		t.Errorf("the pod has %d", milli(got))
	}
}

// TestModel resizes random pods, removes some and restarts the kubelet at any step. What is allocated
// is always what the pod asked for at some time, never more than the node has, and survives.
func TestModel(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	n := newNode(t, 1000)
	m := n.manager()
	have, asked := map[string]int64{}, map[string]map[int64]bool{}
	for step := range 1000 {
		name := fmt.Sprint("pod", r.Intn(6))
		switch k := r.Intn(10); {
		case k == 0:
			m = n.manager()
		case k == 1 && n.pods[types.UID(name)] != nil:
			n.remove(name)
			m.Forget(types.UID(name))
			if err := os.RemoveAll(filepath.Join(n.dir, name)); err != nil {
				t.Fatal(err)
			}
			delete(have, name)
		case k == 2:
			m.mu.Lock()
			m.decide(TriggerPeriodic)
			m.mu.Unlock()
		case have[name] == 0:
			room := n.milli
			for _, milli := range have {
				room -= milli
			}
			size := min(10+r.Int63n(200), room)
			if size <= 0 {
				continue
			}
			asked[name] = map[int64]bool{size: true}
			if got := milli(m.Sync(n.pod(name, size))); got != size {
				t.Fatalf("step %d: the new pod %s has %d, want %d", step, name, got, size)
			}
			have[name] = size
		default:
			size := 10 + r.Int63n(600)
			asked[name][size] = true
			pod := n.pod(name, size)
			if r.Intn(3) > 0 {
				m.Sync(pod)
			}
		}
		var sum int64
		for name, before := range have {
			now := milli(m.allocatedNow(n.pods[types.UID(name)]))
			if !asked[name][now] {
				t.Fatalf("step %d: %s has %d, which it never asked for", step, name, now)
			}
			if _, pending := n.pods[types.UID(name)]; !pending {
				t.Fatalf("step %d: %s is gone, had %d", step, name, before)
			}
			have[name] = now
			sum += now
		}
		if sum > n.milli {
			t.Fatalf("step %d: %d allocated of %d: %v", step, sum, n.milli, have)
		}
	}
}

// allocatedNow returns a pod with its allocated resources.
func (m *Manager) allocatedNow(pod *corev1.Pod) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.allocated(pod)
}

func FuzzDecode(f *testing.F) {
	good, err := encode(&record{Allocated: resize.Sizes{Containers: map[string]corev1.ResourceRequirements{"c": {}}}, Cgroup: &cgroup.Limits{Shares: 2}})
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{string(good), "", "{}", `{"checksum":0}`, string(good) + "x"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decode(text)
		if err != nil {
			return
		}
		again, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		same, err := decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if third, err := encode(same); err != nil || string(third) != string(again) {
			t.Fatalf("%s became %s %v", again, third, err)
		}
	})
}

// TestWrittenLater: what could not be written is written as soon as it can be, so that a restart does
// not lose it.
func TestWrittenLater(t *testing.T) {
	n := newNode(t, 1000)
	obstacle := filepath.Join(n.dir, "a")
	if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := n.manager()
	m.Sync(n.pod("a", 100)) // not written
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	m.Sync(n.pods["a"])
	if got := n.manager().Allocated(n.pod("a", 5000)); milli(got) != 100 {
		t.Errorf("after a restart, the pod has %d", milli(got))
	}
}
