package podstatus

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/reconcile/controllers/internal/controllertest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rankNow is the present of the tests below.
var rankNow = time.Unix(0, 0).Add(1000 * time.Hour)

// aged is a pod that was created and got ready some hours ago.
func aged(name, node string, created, ready int) *corev1.Pod {
	pod := controllertest.ReadyPod(name, node, time.Duration(1000-ready)*time.Hour)
	pod.UID = types.UID(name)
	pod.CreationTimestamp = metav1.NewTime(rankNow.Add(-time.Duration(created) * time.Hour))
	return pod
}

func cost(text string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: text} }
}

func restarted(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: n}} }
}

func sidecarRestarted(n int32) func(*corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "beside", RestartPolicy: &always}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", RestartCount: 99}, {Name: "beside", RestartCount: n}}
	}
}

// wantOrder shuffles want and wants it back.
func wantOrder(t *testing.T, want []*corev1.Pod, sort func([]*corev1.Pod)) {
	t.Helper()
	for range 50 {
		got := slices.Clone(want)
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		sort(got)
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("place %d is %q, want %q", i, got[i].Name, want[i].Name)
			}
		}
	}
}

// TestReplicasDeletionOrder has each criterion decide against all that come
// after it.
func TestReplicasDeletionOrder(t *testing.T) {
	roughly := aged("b: about as long, by the UID", "n5", 900, 2)
	roughly.Status.Conditions[0].LastTransitionTime = metav1.NewTime(rankNow.Add(-130 * time.Minute))
	want := []*corev1.Pod{
		controllertest.With(aged("unassigned", "", 900, 900), cost("9")),
		controllertest.With(aged("pending", "n1", 900, 900), func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		controllertest.With(aged("unknown", "n1", 900, 900), func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }),
		controllertest.With(aged("not ready", "n1", 900, 900), func(p *corev1.Pod) { p.Status.Conditions = nil }),
		controllertest.With(aged("cheap", "m1", 900, 900), cost("-1")),
		aged("three on the node", "n2", 900, 900),
		aged("doubled up, newer", "n3", 900, 3),
		aged("doubled up, older", "n3", 900, 9),
		aged("a: ready for two hours", "n4", 900, 2),
		roughly,
		controllertest.With(aged("restarted", "n6", 900, 20), restarted(3)),
		controllertest.With(aged("restarted beside", "n7", 900, 20), sidecarRestarted(2)),
		aged("created later", "n8", 30, 20),
		aged("created long ago", "n9", 900, 20),
		controllertest.With(aged("dear", "m2", 1, 1), cost("7")),
	}
	// Pods of other ReplicaSets of the Deployment count on their nodes, ready or
	// not; those that are going do not.
	now := metav1.NewTime(rankNow)
	related := append(slices.Clone(want),
		aged("", "n2", 1, 1),
		controllertest.With(aged("", "n2", 1, 1), func(p *corev1.Pod) { p.Status.Conditions = nil }),
		controllertest.With(aged("", "n9", 1, 1), func(p *corev1.Pod) { p.DeletionTimestamp = &now }),
		controllertest.With(aged("", "n9", 1, 1), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))
	wantOrder(t, want, func(pods []*corev1.Pod) { RankReplicas(pods, related, rankNow) })
}

// TestDeletionOrder checks the order in which Jobs delete pods. Nodes and deletion costs
// do not count, and times are compared exactly.
func TestDeletionOrder(t *testing.T) {
	wantOrder(t, []*corev1.Pod{
		aged("unassigned", "", 900, 900),
		controllertest.With(aged("pending", "n1", 900, 900), func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		controllertest.With(aged("not ready", "n1", 900, 900), func(p *corev1.Pod) { p.Status.Conditions = nil }),
		controllertest.With(aged("newer", "n2", 900, 8), cost("7")),
		aged("older", "n1", 900, 9),
		controllertest.With(aged("restarted", "n1", 900, 20), restarted(1)),
		aged("created later", "n1", 899, 20),
		controllertest.With(aged("created before", "n2", 900, 20), cost("-7")),
	}, RankForDeletion)
}

func TestDeletionCost(t *testing.T) {
	for text, want := range map[string]int32{
		"": 0, "0": 0, "10": 10, "-10": -10, "-05": -5, "+10": 0, "05": 0, "1.5": 0, "2147483647": 1<<31 - 1, "2147483648": 0, "-2147483648": -1 << 31,
	} {
		if got := deletionCost(controllertest.With(&corev1.Pod{}, cost(text))); got != want {
			t.Errorf("%q costs %d, want %d", text, got, want)
		}
	}
}

func TestMagnitude(t *testing.T) {
	for age, want := range map[time.Duration]int{-1: -1, 0: -1, 1: 0, 2: 1, 3: 1, 4: 2, time.Hour: 41, 2 * time.Hour: 42} {
		if got := magnitude(age); got != want {
			t.Errorf("%v: %d, want %d", age, got, want)
		}
	}
}

// TestCircleIsCut checks the order of a cycle: restarts put a before b if times are equal, and UIDs
// put both before and behind c. Two processes that see the same pods must delete the same ones.
func TestCircleIsCut(t *testing.T) {
	a, b, c := controllertest.With(aged("a", "n1", 900, 20), restarted(1)), aged("b", "n2", 900, 20), aged("c", "n3", 900, 21)
	a.UID, b.UID, c.UID = "3", "1", "2"
	pods := []*corev1.Pod{a, b, c}
	want := slices.Clone(pods)
	RankReplicas(want, pods, rankNow)
	wantOrder(t, want, func(p []*corev1.Pod) { RankReplicas(p, pods, rankNow) })
}
