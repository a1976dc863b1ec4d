package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotated is a predicate without Wakes: it accepts nodes with the annotation ok.
var annotated = schedule.PredicateFunc("Annotated", func(_ *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
	if n.Node.Annotations["ok"] == "" {
		return schedule.Refuse("node(s) had no annotation")
	}
	return schedule.Fits
})

// followed is a Preparer without Wakes: it accepts nodes if a pod of the same app is on another.
type followed struct{ apart }

func (followed) Filter(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict { return schedule.Fits }
func (followed) Name() string                                                  { return "Followed" }

func (f followed) Prepare(p *schedule.PodInfo, c schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	if p.Pod.Labels["app"] != "a" {
		return nil
	}
	return func(here *schedule.NodeInfo) schedule.Verdict {
		for n := range c.Nodes() {
			for _, other := range n.Pods {
				if n != here && other.Pod.Labels["app"] == "a" {
					return schedule.Fits
				}
			}
		}
		return schedule.Refuse("no other")
	}
}

// slow hides the method Wakes of a predicate.
type slow struct{ schedule.Preparer }

// closedNamespaces refuses pods in namespaces with the label closed.
type closedNamespaces struct{}

func (closedNamespaces) Name() string { return "ClosedNamespaces" }
func (closedNamespaces) Filter(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict {
	return schedule.Fits
}
func (closedNamespaces) Prepare(p *schedule.PodInfo, c schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	n, ok := c.Namespace(p.Pod.Namespace)
	if ok && n.Labels["closed"] == "" {
		return nil
	}
	return func(*schedule.NodeInfo) schedule.Verdict { return schedule.Refuse("namespace is closed") }
}
func (closedNamespaces) Wakes(p *schedule.PodInfo, e schedule.Event) bool {
	_, now, ok := schedule.Changed[*corev1.Namespace](e)
	return ok && now != nil && now.Name == p.Pod.Namespace
}

// TestHelps makes random changes to a State. After each, a pod that fitted no node and fits one now
// must have been helped. If only the nodes themselves matter, no other pod may have been helped.
func TestHelps(t *testing.T) {
	local := append(predicates.Default(), annotated)
	for name, test := range map[string]struct {
		predicates []schedule.Predicate
		exact      bool
	}{
		"nodes alone":           {local, true},
		"no predicate":          {nil, true},
		"with Wakes":            {append(slices.Clone(local), apart{}, closedNamespaces{}), false},
		"with and without":      {append([]schedule.Predicate{slow{followed{}}, apart{}}, local...), false},
		"without Wakes":         {[]schedule.Predicate{slow{apart{}}, slow{followed{}}}, false},
		"with Wakes, no others": {[]schedule.Predicate{apart{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			m := &wakeModel{State: schedule.NewState(test.predicates, nil, seed), rng: rand.New(rand.NewPCG(seed, 0))}
			parked := map[*schedule.PodInfo]*schedule.FitError{}
			for i := range 12 {
				parked[schedule.NewPodInfo(m.pod(fmt.Sprint("waits", i)))] = nil
			}
			helped := 0
			for step := range 4000 {
				event := m.step()
				added := event.Old == nil && event.New != nil
				if _, _, isNode := schedule.Changed[*corev1.Node](event); !isNode {
					added = false
				}
				for p, unfit := range parked {
					_, now := m.State.Decide(p)
					if unfit == nil {
						parked[p] = now // it had room before
						continue
					}
					helps := m.State.Helps(unfit, event)
					if now == nil && !helps {
						t.Fatalf("step %d: %+v makes room for %s, which does not wake: %v", step, event, p.Key, unfit)
					}
					if now != nil && helps && test.exact && !added {
						t.Fatalf("step %d: %+v wakes %s, which fits no node: %v", step, event, p.Key, now)
					}
					if helps {
						helped++
						parked[p] = now
					}
				}
			}
			if helped < 20 && len(test.predicates) > 0 {
				t.Errorf("only %d pods were helped", helped)
			}
		})
	}
}

// wakeModel makes random changes.
type wakeModel struct {
	State   *schedule.State
	rng     *rand.Rand
	assumed []*schedule.PodInfo
}

func (m *wakeModel) one(of ...string) string { return of[m.rng.IntN(len(of))] }

func (m *wakeModel) pod(name string) *corev1.Pod {
	p := pod(name, m.one("", "300m", "600m", "1"), "")
	p.Namespace = m.one("default", "other")
	p.Labels = map[string]string{"app": m.one("a", "b", "c")}
	switch m.rng.IntN(5) {
	case 0:
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	case 1:
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	case 2:
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
	case 3:
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	}
	return p
}

func (m *wakeModel) node(name string) *corev1.Node {
	n := node(name, m.one("500m", "1", "2"), "8Gi", m.one("1", "3", "10"))
	n.Labels = map[string]string{"disk": m.one("ssd", "hdd"), "zone": m.one("a", "b")}
	n.Annotations = map[string]string{"ok": m.one("", "", "yes")}
	n.Spec.Unschedulable = m.rng.IntN(4) == 0
	if m.rng.IntN(4) == 0 {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	}
	if m.rng.IntN(4) == 0 {
		n.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
	}
	return n
}

func (m *wakeModel) step() schedule.Event {
	name, nodeName := fmt.Sprint("p", m.rng.IntN(12)), fmt.Sprint("n", m.rng.IntN(4))
	switch m.rng.IntN(9) {
	case 0, 1:
		return m.State.SetNode(m.node(nodeName))
	case 2:
		return m.State.RemoveNode(nodeName)
	case 3:
		return m.State.SetPod(schedule.NewPodInfo(on(m.pod(name), nodeName)))
	case 4:
		p := m.pod(name)
		p.Status.Phase = corev1.PodSucceeded
		return m.State.SetPod(schedule.NewPodInfo(p))
	case 5:
		return m.State.RemovePod(m.one("default/", "other/") + name)
	case 6:
		p := schedule.NewPodInfo(m.pod(name))
		m.assumed = append(m.assumed, p)
		return m.State.Assume(p, nodeName)
	case 7:
		if len(m.assumed) == 0 {
			return schedule.Event{}
		}
		p := m.assumed[0]
		m.assumed = m.assumed[1:]
		return m.State.Forget(p)
	}
	if name := m.one("default", "other"); m.rng.IntN(5) > 0 {
		return m.State.SetNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"closed": m.one("", "yes")}}})
	} else {
		return m.State.RemoveNamespace(name)
	}
}

// claimed accepts pods whose claim, an object of another type, exists.
type claimed struct {
	claims *localcache.Map[*corev1.PersistentVolumeClaim]
}

func (claimed) Name() string { return "Claimed" }
func (c claimed) Filter(p *schedule.PodInfo, _ *schedule.NodeInfo) schedule.Verdict {
	if _, ok := c.claims.Get(p.Key); !ok {
		return schedule.Refuse("no claim")
	}
	return schedule.Fits
}
func (claimed) Wakes(p *schedule.PodInfo, e schedule.Event) bool {
	_, now, _ := schedule.Changed[*corev1.PersistentVolumeClaim](e)
	return now != nil && now.Namespace+"/"+now.Name == p.Key
}

// TestPredicatesOfOnesOwnWake: pods that predicates of all kinds refused are tried again as soon as
// an event helps them, and not before.
func TestPredicatesOfOnesOwnWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		claims := localcache.NewMap[*corev1.PersistentVolumeClaim]()
		claims.Sync()
		namespaces := localcache.NewMap[*corev1.Namespace]()
		namespaces.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"closed": "yes"}}})
		c.predicates = []schedule.Predicate{annotated, claimed{claims}, apart{}, closedNamespaces{}}
		c.change = func(config *schedule.Config) {
			config.Namespaces = namespaces
			config.Sources = []schedule.Source{schedule.Changes(claims)}
		}
		n := node("a", "1", "1Gi", "110")
		c.nodes.Put(n)
		web := pod("web", "", "")
		web.Labels = map[string]string{"app": "web"}
		other := on(web, "a")
		other.Name, other.UID = "other", "other"
		c.pods.Put(other)
		c.pods.Put(web)
		c.run(func() {
			said := func(at, why string) string {
				return at + " web PodScheduled Unschedulable: 0/1 nodes are available: 1 " + why + "."
			}
			c.expect(time.Minute, said("0s", "node(s) had no annotation"))
			n = n.DeepCopy()
			n.Annotations = map[string]string{"ok": "yes"}
			c.nodes.Put(n)
			c.expect(time.Minute) // Claimed refuses the node now, and is known to
			claims.Put(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "else"}})
			c.expect(time.Minute)
			claims.Put(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
			c.expect(time.Second, said("180s", "node(s) were in a zone of the same app"))
			busy := other.DeepCopy()
			busy.Status.Phase = corev1.PodRunning
			c.pods.Put(busy)
			c.expect(time.Minute) // the status of a pod is no event
			c.pods.Delete("default/other")
			c.expect(0, said("241s", "namespace is closed"))
			namespaces.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
			c.expect(20*time.Second, "245s web on a")
		})
	})
}

// TestAnnotationOfThePodWakes: a change of a waiting pod's annotations is a reason to try it again.
func TestAnnotationOfThePodWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.predicates = []schedule.Predicate{schedule.PredicateFunc("OK", func(p *schedule.PodInfo, _ *schedule.NodeInfo) schedule.Verdict {
			if p.Pod.Annotations["ok"] == "" {
				return schedule.Refuse("pod is not ok")
			}
			return schedule.Fits
		})}
		c.nodes.Put(node("a", "1", "1Gi", "110"))
		c.pods.Put(pod("web", "", ""))
		c.run(func() {
			c.expect(time.Minute, "0s web PodScheduled Unschedulable: 0/1 nodes are available: 1 pod is not ok.")
			ok := pod("web", "", "")
			ok.Annotations = map[string]string{"ok": "yes"}
			c.pods.Put(ok)
			c.expect(0, "60s web on a")
		})
	})
}

// BenchmarkHelps is the cost of an event for each pod that waits: the charge of another pod, which
// helps none, and the end of one, after which the node is checked again.
func BenchmarkHelps(b *testing.B) {
	s := schedule.NewState(predicates.Default(), nil, 1)
	for n := range 1000 {
		s.SetNode(node(fmt.Sprint("n", n), "1", "1Gi", "110"))
	}
	_, unfit := s.Decide(schedule.NewPodInfo(pod("web", "2", "")))
	small := schedule.NewPodInfo(pod("small", "100m", ""))
	for name, event := range map[string]schedule.Event{"assume": s.Assume(small, "n7"), "forget": s.Forget(small)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s.Helps(unfit, event) {
					b.Fatal("helped")
				}
			}
		})
	}
}
