package schedule_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

func TestRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := func(cpu, memory string) corev1.Container {
		c := container(cpu, memory)
		c.RestartPolicy = &always
		return c
	}
	for _, test := range []struct {
		name            string
		spec            corev1.PodSpec
		cpu, memory     int64
		scored, scoredM int64
	}{
		{name: "sum", spec: corev1.PodSpec{Containers: []corev1.Container{container("100m", "1Mi"), container("1", "2Mi")}},
			cpu: 1100, memory: 3 << 20, scored: 1100, scoredM: 3 << 20},
		{name: "nothing", spec: corev1.PodSpec{Containers: []corev1.Container{container("", ""), container("", "1Mi")}},
			cpu: 0, memory: 1 << 20, scored: 200, scoredM: 201 << 20},
		{name: "explicit zero", spec: corev1.PodSpec{Containers: []corev1.Container{container("0", "0")}}},
		{name: "larger init", spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("3", "1Mi"), container("1", "9Mi")},
			Containers:     []corev1.Container{container("2", "2Mi")}},
			cpu: 3000, memory: 9 << 20, scored: 3000, scoredM: 9 << 20},
		{name: "sidecars", spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("3", "1Mi"), sidecar("1", "1Mi"), container("3", "1Mi"), sidecar("1", "1Mi")},
			Containers:     []corev1.Container{container("1", "2Mi")}},
			cpu: 4000, memory: 4 << 20, scored: 4000, scoredM: 4 << 20},
		{name: "overhead", spec: corev1.PodSpec{
			Containers: []corev1.Container{container("1", "1Mi")},
			Overhead:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}},
			cpu: 1250, memory: 1 << 20, scored: 1250, scoredM: 1 << 20},
		{name: "of the pod as a whole", spec: corev1.PodSpec{
			Containers: []corev1.Container{container("1", "1Mi")},
			Resources:  &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5")}}},
			cpu: 5000, memory: 1 << 20, scored: 5000, scoredM: 1 << 20},
	} {
		p := schedule.NewPodInfo(&corev1.Pod{Spec: test.spec})
		if p.Requests.MilliCPU != test.cpu || p.Requests.Memory != test.memory {
			t.Errorf("%s: requests %+v", test.name, p.Requests)
		}
		if p.NonZero.MilliCPU != test.scored || p.NonZero.Memory != test.scoredM {
			t.Errorf("%s: for scoring %+v", test.name, p.NonZero)
		}
	}
}

func TestDecideTakesTheBestAndShares(t *testing.T) {
	s := schedule.NewState(predicates.Default(), priorities.Default(), 1)
	for _, name := range []string{"a", "b", "c"} {
		s.SetNode(node(name, "4", "8Gi", "110"))
	}
	s.SetPod(schedule.NewPodInfo(on(pod("load", "2", "1Gi"), "b")))
	got := make(map[string]int)
	for range 300 {
		name, err := s.Decide(schedule.NewPodInfo(pod("web", "100m", "1Mi")))
		if err != nil {
			t.Fatal(err)
		}
		got[name]++
	}
	if got["b"] != 0 || got["a"] < 100 || got["c"] < 100 {
		t.Errorf("decisions %v", got)
	}
}

func TestFitErrorIsUpstreams(t *testing.T) {
	s := schedule.NewState(predicates.Default(), nil, 1)
	s.SetNode(node("small", "100m", "1Mi", "110"))
	s.SetNode(node("full", "100m", "8Gi", "0"))
	for _, name := range []string{"x", "y"} {
		s.SetNode(node(name, "4", "8Gi", "110"))
	}
	tainted := node("tainted", "4", "8Gi", "110")
	tainted.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}}
	s.SetNode(tainted)
	p := pod("web", "1", "1Gi")
	p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	for _, n := range []string{"small", "full"} {
		labelled := node(n, "100m", "1Mi", "110")
		if n == "full" {
			labelled = node(n, "100m", "8Gi", "0")
		}
		labelled.Labels = map[string]string{"disk": "ssd"}
		s.SetNode(labelled)
	}
	_, err := s.Decide(schedule.NewPodInfo(p))
	const want = "0/5 nodes are available: 1 Insufficient memory, 1 Too many pods, 1 node(s) had untolerated taint(s), " +
		"2 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."
	if err == nil || err.Error() != want || err.Pod != "default/web" {
		t.Errorf("error %v\nwant  %s", err, want)
	}
}

// TestAccounting makes random changes to a State and compares the charges of every node with those
// of a fresh State with the same contents.
func TestAccounting(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := &model{
		State: newWatched(seed), rng: rand.New(rand.NewPCG(seed, 0)),
		nodes: make(map[string]*corev1.Node), placed: make(map[string]*corev1.Pod), assumed: make(map[string]*schedule.PodInfo),
	}
	for step := range 5000 {
		m.step()
		fresh := newWatched(seed)
		for _, n := range m.nodes {
			fresh.SetNode(n)
		}
		for _, p := range m.placed {
			fresh.SetPod(schedule.NewPodInfo(p))
		}
		if got, want := m.State.look(), fresh.look(); !slices.Equal(got, want) {
			t.Fatalf("step %d:\n got %v\nwant %v", step, got, want)
		}
	}
}

// model is a State, and what should be in it.
type model struct {
	State   *watched
	rng     *rand.Rand
	nodes   map[string]*corev1.Node
	placed  map[string]*corev1.Pod       // as they are on their nodes
	assumed map[string]*schedule.PodInfo // those of placed that are not confirmed
	serial  int
}

func (m *model) size() string { return []string{"", "100m", "250m", "1"}[m.rng.IntN(4)] }

// pod makes a pod of a new life.
func (m *model) pod(name string) *corev1.Pod {
	m.serial++
	p := pod(name, m.size(), "")
	p.UID = types.UID(fmt.Sprint(m.serial))
	if m.rng.IntN(4) == 0 {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: int32(80 + m.rng.IntN(3))}}
	}
	if m.rng.IntN(4) == 0 {
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("2")
	}
	return p
}

func (m *model) forget(name string) {
	delete(m.placed, name)
	delete(m.assumed, name)
}

func (m *model) step() {
	name, nodeName := fmt.Sprint("p", m.rng.IntN(30)), fmt.Sprint("n", m.rng.IntN(6))
	switch m.rng.IntN(7) {
	case 0:
		m.nodes[nodeName] = node(nodeName, "1", fmt.Sprint(1+m.rng.IntN(3), "Gi"), "10")
		m.State.SetNode(m.nodes[nodeName])
	case 1:
		delete(m.nodes, nodeName)
		m.State.RemoveNode(nodeName)
	case 2: // a pod appears on a node, or in another life on another
		m.forget(name)
		m.placed[name] = on(m.pod(name), nodeName)
		m.State.SetPod(schedule.NewPodInfo(m.placed[name]))
	case 3:
		if m.placed[name] == nil {
			p := schedule.NewPodInfo(m.pod(name))
			m.State.Assume(p, nodeName)
			m.assumed[name], m.placed[name] = p, on(p.Pod, nodeName)
		}
	case 4:
		if p := m.assumed[name]; p != nil {
			m.settle(name, p)
		}
	case 5:
		m.State.RemovePod("default/" + name)
		m.forget(name)
	case 6:
		if p := m.placed[name]; p != nil {
			p = p.DeepCopy()
			p.Status.Phase = corev1.PodSucceeded
			m.State.SetPod(schedule.NewPodInfo(p))
			m.forget(name)
		}
	}
}

// settle confirms or fails an assumption.
func (m *model) settle(name string, p *schedule.PodInfo) {
	switch m.rng.IntN(3) {
	case 0: // late news: not bound yet
		m.State.SetPod(schedule.NewPodInfo(p.Pod.DeepCopy()))
	case 1: // confirmed
		m.State.SetPod(schedule.NewPodInfo(m.placed[name]))
		delete(m.assumed, name)
		m.State.Forget(p) // too late to matter
	case 2:
		m.State.Forget(p)
		m.forget(name)
	}
}

// watched is a State with a predicate that shows what is in it.
type watched struct {
	*schedule.State
	seen []string
}

func newWatched(seed uint64) *watched {
	w := new(watched)
	w.State = schedule.NewState([]schedule.Predicate{
		schedule.PredicateFunc("Watch", func(_ *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
			ports := slices.Clone(n.Ports)
			slices.SortFunc(ports, func(a, b schedule.HostPort) int { return int(a.Port - b.Port) })
			w.seen = append(w.seen, fmt.Sprintf("%s: %+v of %+v, scored %+v, ports %v, pods %v of %d", n.Node.Name, n.Requested,
				n.Allocatable, n.NonZero, ports, slices.Sorted(maps.Keys(n.Pods)), n.AllocatablePods))
			return schedule.Refuse("only looking")
		}),
	}, nil, seed)
	return w
}

// look returns what is charged to each node.
func (w *watched) look() []string {
	w.seen = nil
	_, _ = w.Decide(schedule.NewPodInfo(pod("look", "", "")))
	slices.Sort(w.seen)
	return w.seen
}

func BenchmarkDecide(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := schedule.NewState(predicates.Default(), priorities.Default(), 1)
			for n := range nodes {
				s.SetNode(node(fmt.Sprint("n", n), "32", "64Gi", "110"))
				for m := range 30 {
					s.SetPod(schedule.NewPodInfo(on(pod(fmt.Sprintf("p%d-%d", n, m), "100m", "128Mi"), fmt.Sprint("n", n))))
				}
			}
			p := schedule.NewPodInfo(pod("web", "100m", "128Mi"))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Decide(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
