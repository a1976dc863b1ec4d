package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func readyPod(name, node string, since time.Duration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(0, 0).Add(since)),
		}}},
	}
}

func with(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(pod)
	return pod
}

func TestPlanReplicaSet(t *testing.T) {
	var five []*corev1.Pod
	for i := range 5 {
		five = append(five, readyPod(fmt.Sprint(i), "n", time.Hour))
	}
	failed := with(readyPod("failed", "n", 1), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	for name, test := range map[string]struct {
		want      int32
		pods      []*corev1.Pod
		unsettled bool
		deleted   bool
		create    int
		remove    int
		more      bool
	}{
		"enough":               {want: 5, pods: five},
		"too few":              {want: 7, pods: five, create: 2},
		"too many":             {want: 1, pods: five, remove: 4},
		"a failed one":         {want: 6, pods: append(slices.Clone(five), failed), create: 1},
		"a burst":              {want: 1300, create: 500, more: true},
		"a burst too many":     {want: 1, pods: slices.Repeat(five, 120), remove: 500, more: true},
		"a burst, and no more": {want: 100, pods: slices.Repeat(five, 120), remove: 500},
		"deletions unsettled":  {want: 7, pods: five, unsettled: true, more: true},
		"being deleted":        {want: 0, pods: five, deleted: true},
	} {
		rs := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &test.want}}
		if test.deleted {
			rs.DeletionTimestamp = &metav1.Time{}
		}
		got := planReplicaSet(rs, test.pods, test.unsettled, func() []*corev1.Pod { return test.pods }, time.Now())
		if got.create != test.create || len(got.delete) != test.remove || got.more != test.more {
			t.Errorf("%s: create %d, delete %d, more %t", name, got.create, len(got.delete), got.more)
		}
	}
}

func TestReplicaSetStatusAvailability(t *testing.T) {
	now := time.Unix(0, 0).Add(time.Hour)
	rs := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{MinReadySeconds: 60}}
	pods := []*corev1.Pod{readyPod("old", "n", 0), readyPod("new", "n", 59*time.Minute+30*time.Second), readyPod("newer", "n", time.Hour)}
	s, again := replicaSetStatus(rs, pods, []*corev1.Pod{readyPod("going", "n", 0)}, nil, now)
	if s.Replicas != 4 || s.ReadyReplicas != 3 || s.AvailableReplicas != 1 || again != 30*time.Second {
		t.Errorf("status %+v, again in %v", s, again)
	}
	timeless := with(readyPod("timeless", "n", 0), func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} })
	if s, again := replicaSetStatus(rs, []*corev1.Pod{timeless}, nil, nil, now); s.ReadyReplicas != 1 || s.AvailableReplicas != 0 || again != time.Minute {
		t.Errorf("ready since nobody knows when: status %+v, again in %v", s, again)
	}
	rs.Spec.MinReadySeconds = 0
	if s, again := replicaSetStatus(rs, []*corev1.Pod{timeless}, nil, nil, now); s.AvailableReplicas != 1 || again != 0 {
		t.Errorf("with nothing to wait for: status %+v, again in %v", s, again)
	}
}

func TestBounds(t *testing.T) {
	for _, test := range []struct {
		surge, unavailable string
		want               int32
		s, u               int32
	}{
		{"25%", "25%", 10, 3, 2},
		{"25%", "25%", 1, 1, 0},
		{"0", "0", 3, 0, 1},
		{"0", "100%", 3, 0, 3},
		{"2", "9", 3, 2, 3},
		{"0%", "10%", 3, 0, 1},
	} {
		s, u := intstr.Parse(test.surge), intstr.Parse(test.unavailable)
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &test.want, Strategy: appsv1.DeploymentStrategy{
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}}}}
		if s, u := bounds(d); s != test.s || u != test.u {
			t.Errorf("%+v: %d and %d", test, s, u)
		}
	}
}

// TestRolloutModel steps through rollouts by planning alone, with pods that
// become available and go in any order, and checks both bounds at each step.
func TestRolloutModel(t *testing.T) {
	for range 500 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		want, s, u := int32(r.IntN(12)), intstr.FromInt(r.IntN(4)), intstr.FromInt(r.IntN(4))
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: &want,
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}}}}
		old := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: appsv1.ReplicaSetSpec{Replicas: &want},
			Status: appsv1.ReplicaSetStatus{Replicas: want, AvailableReplicas: want}}
		old.Spec.Template.Spec.Hostname = "old"
		sets := []*appsv1.ReplicaSet{old}
		surge, unavailable := bounds(d)
		for step := 0; ; step++ {
			plan := planDeployment(d, sets, func(*appsv1.ReplicaSet) bool { return true })
			if plan.create != nil {
				sets = append(sets, plan.create)
			}
			for _, up := range plan.update {
				*up.from = *up.to
			}
			var pods, available int32
			for _, rs := range sets {
				s, size := &rs.Status, *rs.Spec.Replicas
				// The ReplicaSet controller: first what is too many, ready ones last.
				s.Replicas = size
				s.AvailableReplicas = min(s.AvailableReplicas, size)
				pods += s.Replicas
				available += s.AvailableReplicas
			}
			if pods > want+surge || available < want-unavailable {
				t.Fatalf("seed %d step %d: %d pods, %d available of %d, surge %d, unavailable %d", seed, step, pods, available, want, surge, unavailable)
			}
			current := sets[len(sets)-1]
			if len(sets) == 2 && current.Status.AvailableReplicas == want && old.Status.Replicas == 0 {
				break
			}
			if step > 200 {
				t.Fatalf("seed %d: no end: old %d, new %d of %d", seed, old.Status.Replicas, current.Status.Replicas, want)
			}
			if r.IntN(2) == 0 && current.Status.AvailableReplicas < current.Status.Replicas {
				current.Status.AvailableReplicas++
			}
		}
	}
}

// TestTemplateHash keeps names from changing between versions: every
// Deployment would be rolled out anew.
func TestTemplateHash(t *testing.T) {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"b": "2", "app": "nginx"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:1"}}},
	}
	one := int32(1)
	plain, collided := templateHash(template, nil), templateHash(template, &one)
	if plain != "79864bd6f" || collided != "687b67848" {
		t.Errorf("hashes %q and %q", plain, collided)
	}
}

func TestPodNames(t *testing.T) {
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: strings.Repeat("x", 70), UID: "uid"}}
	none := func(string) (*corev1.Pod, bool) { return nil, false }
	all, err := podNames(owner, nil, nil, 2000, none)
	if err != nil || len(slices.Compact(slices.Sorted(slices.Values(all)))) != 2000 || len(all[0]) != 63 {
		t.Fatalf("%d names such as %s, %v", len(all), all[0], err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: all[1]}}
	got, _ := podNames(owner, []*corev1.Pod{pod}, []string{all[5]}, 3, none)
	if want := []string{all[5], all[0], all[2]}; !slices.Equal(got, want) {
		t.Errorf("%v, want the one that was tried, and the lowest that are free: %v", got, want)
	}
	cache := func(key string) (*corev1.Pod, bool) { return pod, key == "ns/"+pod.Name }
	if got, err := podNames(owner, nil, nil, 2, cache); err != nil || !slices.Equal(got, []string{all[0], all[2]}) {
		t.Errorf("with a stranger of that name: %v, %v", got, err)
	}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, replicaSetKind)}
	if _, err := podNames(owner, nil, nil, 2, cache); !isStale(err) {
		t.Errorf("with a pod that was not counted: %v", err)
	}
}

// lossy applies nothing and says nothing of use.
type lossy struct{ names []string }

func (l *lossy) Create(_ context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	l.names = append(l.names, pod.Name)
	return nil, errors.New("connection reset")
}

func (l *lossy) Delete(context.Context, string, string, metav1.DeleteOptions) error { return nil }

// TestLostCreateIsTriedAgain has a lower name become free after a create whose
// answer was lost. Taking that would make a second pod.
func TestLostCreateIsTriedAgain(t *testing.T) {
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid"}}
	none := func(string) (*corev1.Pod, bool) { return nil, false }
	names, _ := podNames(owner, nil, nil, 1, none)
	writer := &lossy{}
	p := podControl{writer: writer, events: noEvents{}, kind: replicaSetKind}
	template := &corev1.PodTemplateSpec{}
	first := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: names[0]}}}
	for _, pods := range [][]*corev1.Pod{first, nil} {
		p.observe("ns/web", pods)
		if err := p.create(t.Context(), owner, template, 1, pods, none); err == nil {
			t.Fatal("no error")
		}
	}
	if writer.names[0] == names[0] || writer.names[1] != writer.names[0] {
		t.Errorf("tried %v", writer.names)
	}
}

// limited makes as many pods as it may.
type limited struct {
	mu          sync.Mutex
	left, tries int
}

func (l *limited) Create(_ context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	if l.left--; l.left < 0 {
		return nil, errors.New("exceeded quota")
	}
	return pod, nil
}

func (l *limited) Delete(context.Context, string, string, metav1.DeleteOptions) error { return nil }

// TestSlowStart: batches double, and the one that fails is the last.
func TestSlowStart(t *testing.T) {
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid"}}
	none := func(string) (*corev1.Pod, bool) { return nil, false }
	for _, test := range []struct{ n, limit, tries int }{{100, 0, 1}, {100, 1, 3}, {100, 2, 3}, {100, 3, 7}, {100, 14, 15}, {100, 15, 31}, {20, 15, 20}, {20, 20, 20}} {
		writer := &limited{left: test.limit}
		p := podControl{writer: writer, events: noEvents{}, kind: replicaSetKind}
		err := p.create(t.Context(), owner, &corev1.PodTemplateSpec{}, test.n, nil, none)
		if writer.tries != test.tries || (err == nil) != (test.limit >= test.n) {
			t.Errorf("%d wanted and %d allowed: %d tried, %v", test.n, test.limit, writer.tries, err)
		}
	}
}

func TestPlanRanges(t *testing.T) {
	node := func(name string, cidrs ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		if len(cidrs) > 0 {
			n.Spec.PodCIDR, n.Spec.PodCIDRs = cidrs[0], cidrs
		}
		return n
	}
	going, goingWith := node("a"), node("a", "10.0.0.0/24")
	going.DeletionTimestamp, goingWith.DeletionTimestamp = &metav1.Time{}, &metav1.Time{}
	for name, test := range map[string]struct {
		cluster string
		bits    int
		nodes   []*corev1.Node
		given   map[types.UID]netip.Prefix
		want    string
	}{
		"lowest first":                {"10.244.0.0/16", 24, []*corev1.Node{node("a"), node("b", "10.244.1.0/24"), node("c")}, nil, "a=10.244.0.0/24 c=10.244.2.0/24"},
		"given is kept":               {"10.0.0.0/22", 24, []*corev1.Node{node("a"), node("b")}, map[types.UID]netip.Prefix{"b": netip.MustParsePrefix("10.0.0.0/24")}, "a=10.0.1.0/24 b=10.0.0.0/24"},
		"other lengths":               {"10.0.0.0/22", 24, []*corev1.Node{node("a"), node("b", "10.0.0.0/23"), node("c", "10.0.2.128/25")}, nil, "a=10.0.3.0/24"},
		"full":                        {"10.0.0.0/24", 24, []*corev1.Node{node("a"), node("b")}, nil, "a=10.0.0.0/24 b full"},
		"wider than all":              {"10.0.0.0/22", 24, []*corev1.Node{node("a"), node("b", "10.0.0.0/8")}, nil, "a full"},
		"elsewhere":                   {"10.0.0.0/24", 24, []*corev1.Node{node("a"), node("b", "192.168.0.0/16")}, nil, "a=10.0.0.0/24"},
		"six":                         {"fd00:1::/56", 64, []*corev1.Node{node("a", "fd00:1::/64"), node("b")}, nil, "b=fd00:1:0:1::/64"},
		"second family":               {"fd00:1::/56", 64, []*corev1.Node{node("a", "10.0.0.0/24", "fd00:1::/64"), node("b")}, nil, "b=fd00:1:0:1::/64"},
		"one that goes":               {"10.0.0.0/24", 24, []*corev1.Node{going, node("b")}, nil, "b=10.0.0.0/24"},
		"one that goes, with a range": {"10.0.0.0/23", 24, []*corev1.Node{goingWith, node("b")}, nil, "b=10.0.1.0/24"},
		"not a real CIDR":             {"10.0.0.0/24", 24, []*corev1.Node{node("a"), node("b", "nonsense")}, nil, "a=10.0.0.0/24"},
	} {
		plan, full := planRanges(netip.MustParsePrefix(test.cluster), test.bits, test.nodes, test.given)
		var got []string
		for _, p := range plan {
			got = append(got, p.node.Name+"="+p.prefix.String())
		}
		for _, n := range full {
			got = append(got, n.Name+" full")
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s: %s, want %s", name, s, test.want)
		}
	}
}

func FuzzMark(f *testing.F) {
	f.Add("10.0.3.0/24")
	f.Add("::ffff:10.0.0.0/100")
	f.Add("0.0.0.0/0")
	f.Fuzz(func(t *testing.T, s string) {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			return
		}
		cluster := netip.MustParsePrefix("10.0.0.0/20")
		used := make([]bool, 16)
		mark(used, cluster, 24, prefix)
		for i := range used {
			if want := subnet(cluster, 24, i).Overlaps(prefix); used[i] != want {
				t.Errorf("%s: range %d is marked %t, overlaps %t", s, i, used[i], want)
			}
		}
	})
}

func TestConfigsAreChecked(t *testing.T) {
	for name, err := range map[string]error{
		"deployment":      second(NewDeployment(DeploymentConfig{})),
		"replica set":     second(NewReplicaSet(ReplicaSetConfig{})),
		"job":             second(NewJob(JobConfig{})),
		"garbage":         second(NewGarbage(GarbageConfig{})),
		"garbage kind":    second(NewGarbage(GarbageConfig{Kinds: []GarbageKind{{}}})),
		"namespace":       second(NewNamespace(NamespaceConfig{})),
		"service account": second(NewServiceAccount(ServiceAccountConfig{})),
		"node ipam":       second(NewNodeIPAM(NodeIPAMConfig{})),
		"node lifecycle":  second(NewNodeLifecycle(NodeLifecycleConfig{})),
		"pod garbage":     second(NewPodGarbage(PodGarbageConfig{})),
		"root ca":         second(NewRootCA(RootCAConfig{})),
	} {
		if err == nil {
			t.Errorf("%s: an empty config was accepted", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }
