package resize_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/qos"
	"github.com/planekit/planekit/kubelet/internal/resize"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// list returns amounts in thousandths of a cpu and MiB; zero leaves one out.
func list(milli, mib int64) corev1.ResourceList {
	l := corev1.ResourceList{}
	if milli > 0 {
		l[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
	}
	if mib > 0 {
		l[corev1.ResourceMemory] = *resource.NewQuantity(mib<<20, resource.BinarySI)
	}
	return l
}

func requirements(milli, mib, limitMilli, limitMiB int64) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: list(milli, mib), Limits: list(limitMilli, limitMiB)}
}

func podOf(name string, sizes ...corev1.ResourceRequirements) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.UID, pod.Generation = name, types.UID(name), 1
	for i, r := range sizes {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Resources: r})
	}
	return pod
}

func TestApply(t *testing.T) {
	pod := podOf("a", requirements(100, 100, 200, 200), requirements(0, 0, 0, 0))
	sizes := resize.Of(pod)
	if sizes.Apply(pod) != pod {
		t.Error("the same size makes another pod")
	}
	next := pod.DeepCopy()
	next.Spec.Containers[0].Resources = requirements(150, 100, 300, 200)
	next.Spec.Containers = append(next.Spec.Containers, corev1.Container{Name: "new", Resources: requirements(1, 1, 1, 1)})
	before := next.String()
	got := sizes.Apply(next)
	if !resize.Same(got.Spec.Containers[0].Resources, pod.Spec.Containers[0].Resources) || !resize.Same(got.Spec.Containers[2].Resources, requirements(1, 1, 1, 1)) {
		t.Errorf("applied: %+v", got.Spec.Containers)
	}
	if next.String() != before {
		t.Error("the pod was changed")
	}
	if sizes.Empty() || !resize.Of(podOf("b", requirements(0, 0, 0, 0))).Empty() {
		t.Error("Empty is wrong")
	}
}

func TestDecide(t *testing.T) {
	node := resize.Node{Allocatable: list(2000, 1000)}
	allocated := podOf("a", requirements(500, 100, 0, 0))
	other := podOf("b", requirements(1000, 400, 0, 0))
	node.Pods = []*corev1.Pod{allocated, other}
	for _, test := range []struct {
		name            string
		milli, mib      int64
		reason, message string
	}{
		{"smaller", 100, 50, "", ""},
		{"just fits", 1000, 600, "", ""},
		{"too much cpu", 1001, 100, "OutOfcpu", "Node didn't have enough resource: cpu, requested: 1001, used: 1000, capacity: 2000"},
		{"too much memory", 500, 601, "OutOfmemory", "Node didn't have enough resource: memory, requested: 630194176, used: 419430400, capacity: 1048576000"},
	} {
		r := resize.Decide(podOf("a", requirements(test.milli, test.mib, 0, 0)), allocated, node)
		if (r == nil) != (test.reason == "") || r != nil && (r.Reason != test.reason || r.Message != test.message || r.Condition() != "Deferred") {
			t.Errorf("%s: Decide(%dm CPU, %d MiB) = %+v, want Deferred, %q, %q (empty: nil)",
				test.name, test.milli, test.mib, r, test.reason, test.message)
		}
	}
	// What another pod still has counts until its status says less.
	other.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c0", Resources: &corev1.ResourceRequirements{Requests: list(1800, 400)}}}
	if r := resize.Decide(podOf("a", requirements(600, 100, 0, 0)), allocated, node); r == nil || !strings.Contains(r.Message, "used: 1800") {
		t.Errorf("Decide(600m CPU) = %+v, want a refusal with \"used: 1800\"", r)
	}
	node.StaticCPU = true
	whole := podOf("a", requirements(1000, 100, 1000, 100))
	whole.Status.QOSClass = corev1.PodQOSGuaranteed
	r := resize.Decide(whole, allocated, node)
	if r == nil || r.Condition() != "Infeasible" || r.Message != `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"` {
		t.Errorf("Decide(a guaranteed pod with static CPUs) = %+v, want Infeasible because of the policy \"static\"", r)
	}
}

func TestSort(t *testing.T) {
	now := time.Now()
	pending := func(name string, priority int32, class corev1.PodQOSClass, milli int64, since time.Duration) resize.Pending {
		p := resize.Pending{Pod: podOf(name, requirements(milli, 0, 0, 0)), Allocated: podOf(name, requirements(100, 0, 0, 0))}
		p.Pod.Spec.Priority, p.Pod.Status.QOSClass = &priority, class
		if since > 0 {
			p.Since = now.Add(-since)
		}
		return p
	}
	want := []resize.Pending{
		pending("shrinks", 0, corev1.PodQOSBurstable, 50, time.Second),
		pending("important", 10, corev1.PodQOSBurstable, 200, time.Second),
		pending("guaranteed", 1, corev1.PodQOSGuaranteed, 200, time.Second),
		pending("old", 1, corev1.PodQOSBurstable, 200, time.Hour),
		pending("young", 1, corev1.PodQOSBurstable, 200, time.Minute),
		pending("new", 1, corev1.PodQOSBurstable, 200, 0),
		pending("unimportant", 0, corev1.PodQOSGuaranteed, 200, time.Hour),
	}
	seed := time.Now().UnixNano()
	r := rand.New(rand.NewSource(seed))
	for range 50 {
		got := slices.Clone(want)
		r.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		resize.Sort(got)
		for i := range got {
			if got[i].Pod.Name != want[i].Pod.Name {
				t.Fatalf("seed %d: %s is at the place of %s", seed, got[i].Pod.Name, want[i].Pod.Name)
			}
		}
	}
}

func TestMessage(t *testing.T) {
	pod := podOf("a", requirements(200, 0, 0, 0), requirements(0, 0, 0, 0))
	pod.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: requirements(100, 100, 0, 0)}}
	for _, test := range []struct{ what, problem, want string }{
		{"Pod resize started", "", `Pod resize started: {"initContainers":[{"name":"i","resources":{"requests":{"cpu":"100m","memory":"100Mi"}}}],"containers":[{"name":"c0","resources":{"requests":{"cpu":"200m"}}},{"name":"c1","resources":{}}],"generation":2}`},
		{"Pod resize OutOfcpu", "no room", `Pod resize OutOfcpu: {"initContainers":[{"name":"i","resources":{"requests":{"cpu":"100m","memory":"100Mi"}}}],"containers":[{"name":"c0","resources":{"requests":{"cpu":"200m"}}},{"name":"c1","resources":{}}],"generation":2,"error":"no room"}`},
	} {
		if got := resize.Message(test.what, pod, 2, test.problem); got != test.want {
			t.Errorf("%s\nwant\n%s", got, test.want)
		}
	}
}

func TestActual(t *testing.T) {
	allocated, told := requirements(200, 200, 400, 400), requirements(100, 100, 200, 200)
	for _, test := range []struct {
		name     string
		told     *corev1.ResourceRequirements
		reported *resize.Reported
		want     corev1.ResourceRequirements
	}{
		{"nothing known", nil, nil, allocated},
		{"told", &told, nil, told},
		{"reported", &told, &resize.Reported{MilliRequest: 150, MilliLimit: 300, Memory: 300 << 20}, requirements(150, 100, 300, 300)},
		{"reported in part", &told, &resize.Reported{MilliRequest: 150}, requirements(150, 100, 200, 200)},
	} {
		if got := resize.Actual(allocated, test.told, test.reported); !resize.Same(*got, test.want) {
			t.Errorf("%s: Actual = %v, want %v", test.name, got, &test.want)
		}
	}
	tiny := requirements(1, 0, 5, 0)
	if got := resize.Actual(tiny, &tiny, &resize.Reported{MilliRequest: 2, MilliLimit: 10}); !resize.Same(*got, tiny) {
		t.Errorf("the smallest shares and quota changed a smaller size: %v", got)
	}
	if allocated.Requests.Cpu().MilliValue() != 200 {
		t.Error("the allocated size was changed")
	}
}

func TestRestarts(t *testing.T) {
	c := corev1.Container{Resources: requirements(100, 100, 200, 200), ResizePolicy: []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
	}}
	if resize.Restarts(&c, requirements(50, 100, 100, 200)) || !resize.Restarts(&c, requirements(100, 100, 200, 150)) || !resize.Restarts(&c, requirements(100, 50, 200, 200)) {
		t.Error("wrong")
	}
}

// TestSteps resizes random pods and checks after each step that what a cgroup of version 1 requires
// holds: no container has a larger limit than its pod.
func TestSteps(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	for range 3000 {
		n := 1 + r.Intn(4)
		size := func() corev1.ResourceRequirements {
			milli, mib := 10+r.Int63n(1000), 10+r.Int63n(1000)
			return requirements(milli, mib, milli+r.Int63n(100), mib+r.Int63n(100))
		}
		var before, after []corev1.ResourceRequirements
		for range n {
			before, after = append(before, size()), append(after, size())
			if r.Intn(4) == 0 {
				after[len(after)-1] = before[len(before)-1]
			}
		}
		now, want := podOf("p", before...), podOf("p", after...)
		var updates []resize.Update
		has := map[string]corev1.ResourceRequirements{}
		for i := range want.Spec.Containers {
			has[fmt.Sprint("id", i)] = before[i]
			if !resize.Same(before[i], after[i]) {
				updates = append(updates, resize.Update{ID: fmt.Sprint("id", i), Spec: &want.Spec.Containers[i], Now: &before[i]})
			}
		}
		limits, target := qos.Limits(now), qos.Limits(want)
		lowered := map[string]bool{}
		for _, s := range resize.Shrinks(limits, target, updates) {
			lowered[s.Container] = true
		}
		for i, step := range resize.Steps(limits, target, updates) {
			if step.Container != nil {
				old := has[step.Container.ID]
				has[step.Container.ID] = step.Size
				if step.Size.Limits.Memory().Cmp(*old.Limits.Memory()) < 0 && !lowered[step.Container.Spec.Name] {
					t.Fatalf("step %d lowers the memory of %s, which was not checked", i, step.Container.ID)
				}
			} else {
				if step.Before != limits || changes(limits, step.Cgroup) != 1 {
					t.Fatalf("step %d changes %+v to %+v, was %+v", i, step.Before, step.Cgroup, limits)
				}
				if step.Cgroup.Memory < limits.Memory && !lowered[""] {
					t.Fatalf("step %d lowers the memory of the pod, which was not checked", i)
				}
				limits = step.Cgroup
			}
			for id, c := range has {
				if qos.CPUQuota(c.Limits.Cpu().MilliValue()) > limits.Quota || c.Limits.Memory().Value() > limits.Memory {
					t.Fatalf("after step %d container %s has %v, and the pod %+v", i, id, c.Limits, limits)
				}
			}
		}
		if limits != target {
			t.Fatalf("the pod has %+v, want %+v", limits, target)
		}
		for i := range after {
			if !resize.Same(has[fmt.Sprint("id", i)], after[i]) {
				t.Fatalf("container %d has %v, want %v", i, has[fmt.Sprint("id", i)], after[i])
			}
		}
	}
}

func changes(a, b cgroup.Limits) int {
	n := 0
	for _, differ := range []bool{a.Shares != b.Shares, a.Quota != b.Quota, a.Memory != b.Memory} {
		if differ {
			n++
		}
	}
	return n
}

// TestUnknownSize tells a container of unknown size the whole size in each step.
func TestUnknownSize(t *testing.T) {
	pod := podOf("p", requirements(100, 100, 200, 200))
	limits := qos.Limits(pod)
	updates := []resize.Update{{ID: "id", Spec: &pod.Spec.Containers[0]}}
	steps := resize.Steps(limits, limits, updates)
	if len(steps) != 2 {
		t.Fatalf("%d steps", len(steps))
	}
	for _, s := range steps {
		if !resize.Same(s.Size, pod.Spec.Containers[0].Resources) {
			t.Errorf("a step has the size %v, want %v", &s.Size, &pod.Spec.Containers[0].Resources)
		}
	}
	if list := resize.Shrinks(limits, limits, updates); len(list) > 0 {
		t.Errorf("checks %v", list)
	}
}

// TestNoLimit leaves the limits of a pod's cgroup as they are if the pod has none.
func TestNoLimit(t *testing.T) {
	now := cgroup.Limits{Shares: 100, Quota: 5000, Memory: 1 << 20}
	if got := resize.Target(now, cgroup.Limits{Shares: 200}); got != (cgroup.Limits{Shares: 200, Quota: 5000, Memory: 1 << 20}) {
		t.Errorf("Target(%+v, 200 shares) = %+v, want 200 shares, quota 5000, memory %d", now, got, 1<<20)
	}
	// A limit that is added comes after the containers.
	pod := podOf("p", requirements(100, 100, 200, 200))
	was := requirements(100, 100, 0, 0)
	steps := resize.Steps(cgroup.Limits{Shares: 102}, qos.Limits(pod), []resize.Update{{ID: "id", Spec: &pod.Spec.Containers[0], Now: &was}})
	var kinds []string
	for _, s := range steps {
		kinds = append(kinds, map[bool]string{true: "container", false: "pod"}[s.Container != nil])
	}
	if got := strings.Join(kinds, " "); got != "container pod container pod" {
		t.Error(got)
	}
}

// TestDecideHuge refuses sizes that an int64 does not hold. As numbers, they would be small or negative.
func TestDecideHuge(t *testing.T) {
	allocated := podOf("a", requirements(500, 100, 0, 0))
	node := resize.Node{Allocatable: list(2000, 1000), Pods: []*corev1.Pod{allocated}}
	for _, test := range []struct {
		name corev1.ResourceName
		size string
	}{
		{corev1.ResourceCPU, "9223372036854776"}, {corev1.ResourceCPU, "9223372036854775807"}, {corev1.ResourceCPU, "9e30"}, {corev1.ResourceMemory, "9e30"},
	} {
		pod := podOf("a", requirements(500, 100, 0, 0))
		pod.Spec.Containers[0].Resources.Requests[test.name] = resource.MustParse(test.size)
		if r := resize.Decide(pod, allocated, node); r == nil {
			t.Errorf("%s of %s: it was granted", test.size, test.name)
		}
	}
}
