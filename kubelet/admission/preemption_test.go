package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/eviction"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// named returns a pod with a quality of service.
func named(name string, class corev1.PodQOSClass, pairs ...string) *corev1.Pod {
	pod := podOf(requesting(pairs...))
	pod.Name, pod.UID, pod.Status.QOSClass = name, types.UID(name), class
	return pod
}

func critical(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Priority = new(int32(2_000_000_000))
	return pod
}

func names(pods []*corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return fmt.Sprint(out)
}

func TestVictims(t *testing.T) {
	const bestEffort, burstable, guaranteed = corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed
	for _, test := range []struct {
		name   string
		others []*corev1.Pod
		wants  []string // requests of the critical pod
		want   string
	}{
		{"enough room", []*corev1.Pod{named("a", burstable, "cpu", "1")}, []string{"cpu", "1"}, "[]"},
		{"the closest", []*corev1.Pod{named("small", burstable, "cpu", "100m"), named("fits", burstable, "cpu", "500m"), named("large", burstable, "cpu", "1400m")},
			[]string{"cpu", "500m"}, "[fits]"},
		{"one instead of two", []*corev1.Pod{named("a", burstable, "cpu", "900m"), named("b", burstable, "cpu", "500m"), named("c", burstable, "cpu", "600m")},
			[]string{"cpu", "900m"}, "[a]"},
		{"burstable before guaranteed", []*corev1.Pod{named("g", guaranteed, "cpu", "1"), named("b", burstable, "cpu", "1")}, []string{"cpu", "1"}, "[b]"},
		{"guaranteed when it must", []*corev1.Pod{named("g", guaranteed, "cpu", "1"), named("b", burstable, "cpu", "1")}, []string{"cpu", "2"}, "[b g]"},
		{"a place, the last of equals", []*corev1.Pod{named("a", bestEffort), named("b", burstable, "cpu", "1"), named("c", guaranteed, "cpu", "500m"), named("d", bestEffort)}, []string{"cpu", "500m"}, "[d]"},
		{"memory too", []*corev1.Pod{named("a", burstable, "cpu", "1"), named("b", burstable, "memory", "1Gi"), named("c", burstable, "cpu", "1")},
			[]string{"cpu", "1", "memory", "512Mi"}, "[c b]"},
		{"not other critical ones", []*corev1.Pod{critical(named("c", burstable, "cpu", "2"))}, []string{"cpu", "1"},
			"Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]"},
	} {
		handlers, err := Handlers(Host{})
		if err != nil {
			t.Fatal(err)
		}
		pod := critical(named("new", burstable, test.wants...))
		verdict, victims := Decide(Request{Pod: pod, Others: test.others, Node: testNode()}, handlers)
		got := names(victims)
		if !verdict.Admits() {
			got = verdict.Message
			if verdict.Reason != "UnexpectedAdmissionError" {
				t.Errorf("%s: reason %s", test.name, verdict.Reason)
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestPreemptionIsLast: no pod ends for a critical one that the node refuses for another reason, also
// of a later handler.
func TestPreemptionIsLast(t *testing.T) {
	handlers, err := Handlers(Host{})
	if err != nil {
		t.Fatal(err)
	}
	others := []*corev1.Pod{named("a", corev1.PodQOSBurstable, "cpu", "2")}
	pod := critical(named("new", corev1.PodQOSBurstable, "cpu", "1"))
	pod.Spec.NodeSelector = map[string]string{"zone": "b"}
	if v, victims := Decide(Request{Pod: pod, Others: others, Node: testNode()}, handlers); v.Reason != "NodeAffinity" || len(victims) > 0 {
		t.Errorf("Decide(new in zone b) = %+v with victims %s, want reason NodeAffinity and none", v, names(victims))
	}
	pod.Spec.NodeSelector = nil
	last := append(handlers, HandlerFunc(func(Request) Verdict { return Verdict{Reason: "No", Message: "no"} }))
	if v, victims := Decide(Request{Pod: pod, Others: others, Node: testNode()}, last); v.Reason != "No" || len(victims) > 0 {
		t.Errorf("Decide(new) with a last handler that refuses = %+v with victims %s, want reason No and none", v, names(victims))
	}
	if v, victims := Decide(Request{Pod: pod, Others: others, Node: testNode()}, handlers); !v.Admits() || names(victims) != "[a]" {
		t.Errorf("Decide(new) = %+v with victims %s, want it to admit with [a]", v, names(victims))
	}
	pod.Spec.Priority = new(int32(1_000_000))
	if v, _ := Decide(Request{Pod: pod, Others: others, Node: testNode()}, last); v.Reason != "OutOfcpu" {
		t.Errorf("Decide(new of priority 1000000) with a last handler that refuses = %+v, want reason OutOfcpu", v)
	}
}

// TestDecideModel: random pods on random nodes. An admitted pod fits once its victims are gone; a
// victim is never critical; a refusal for resources is true; and no input changes.
func TestDecideModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	handlers, err := Handlers(Host{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		random := rand.New(rand.NewPCG(seed+uint64(i), 0))
		pod := func(name string) *corev1.Pod {
			class := []corev1.PodQOSClass{corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed}[random.IntN(3)]
			p := named(name, class, "cpu", fmt.Sprintf("%dm", random.IntN(800)), "memory", fmt.Sprintf("%dMi", random.IntN(600)))
			if random.IntN(3) == 0 {
				critical(p)
			}
			return p
		}
		var others []*corev1.Pod
		for n := range random.IntN(6) {
			others = append(others, pod(fmt.Sprint("p", n)))
		}
		incoming, node := pod("new"), testNode()
		before := fmt.Sprint(others, incoming, node)
		verdict, victims := Decide(Request{Pod: incoming, Others: others, Node: node}, handlers)
		rest := slices.DeleteFunc(slices.Clone(others), func(p *corev1.Pod) bool { return slices.Contains(victims, p) })
		short := Fits(incoming, rest, node.Status.Allocatable)
		switch {
		case fmt.Sprint(others, incoming, node) != before:
			t.Fatalf("seed %d: the input has changed", seed+uint64(i))
		case len(rest)+len(victims) != len(others):
			t.Fatalf("seed %d: victims %s are not among the others", seed+uint64(i), names(victims))
		case verdict.Admits() && len(short) > 0:
			t.Fatalf("seed %d: admitted, and lacks %v", seed+uint64(i), short)
		case !verdict.Admits() && len(Fits(incoming, others, node.Status.Allocatable)) == 0:
			t.Fatalf("seed %d: refused, and fits: %+v", seed+uint64(i), verdict)
		case len(victims) > 0 && (!eviction.Critical(incoming) || slices.ContainsFunc(victims, eviction.Critical)):
			t.Fatalf("seed %d: victims %s", seed+uint64(i), names(victims))
		}
		for j := range victims {
			kept := append(slices.Clone(rest), victims[j])
			if len(Fits(incoming, kept, node.Status.Allocatable)) == 0 && len(victims) == 1 {
				t.Fatalf("seed %d: %s ends for nothing", seed+uint64(i), victims[j].Name)
			}
		}
	}
}
