package lifecycle

import (
	"testing"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/qos"
	"github.com/planekit/planekit/kubelet/internal/resize"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func sizeOf(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

func TestPlanSize(t *testing.T) {
	restart := []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	small, cpu, memory := sizeOf("1", "1Gi"), sizeOf("2", "1Gi"), sizeOf("1", "2Gi")
	for _, test := range []struct {
		name     string
		state    string
		spec     corev1.ResourceRequirements // of container a; b is small
		policy   []corev1.ContainerResizePolicy
		actuated map[string]corev1.ResourceRequirements
		cgroup   *cgroup.Limits // nil means the limits in the spec
		updates  int
		stops    string
		pod      bool
		resizing bool
	}{
		{name: "nothing", state: "s0! | a0@s0:run b0@s0:run", spec: small, actuated: map[string]corev1.ResourceRequirements{"a": small, "b": small}},
		{name: "more cpu", state: "s0! | a0@s0:run b0@s0:run", spec: cpu, policy: restart, actuated: map[string]corev1.ResourceRequirements{"a": small, "b": small}, updates: 1, resizing: true},
		{name: "more memory", state: "s0! | a0@s0:run b0@s0:run", spec: memory, policy: restart, actuated: map[string]corev1.ResourceRequirements{"a": small, "b": small},
			stops: "Container a resize requires restart", resizing: true},
		{name: "unknown sizes", state: "s0! | a0@s0:run b0@s0:run", spec: memory, policy: restart, updates: 2, resizing: true},
		{name: "not running", state: "s0! | a0@s0:exit1 b0@s0:run", spec: memory, policy: restart, actuated: map[string]corev1.ResourceRequirements{"a": small, "b": small}},
		{name: "the pod's cgroup", state: "s0! | a0@s0:exit1 b0@s0:run", spec: memory, actuated: map[string]corev1.ResourceRequirements{"b": small},
			cgroup: &cgroup.Limits{Shares: 2048, Quota: 200000, Memory: 2 << 30}, pod: true, resizing: true},
		{name: "without a sandbox", state: "s0 | a0@s0:run", spec: memory, actuated: map[string]corev1.ResourceRequirements{"a": small}, stops: "Stopping container a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := testPod(corev1.RestartPolicyAlways)
			pod.Spec.Containers[0].Resources, pod.Spec.Containers[0].ResizePolicy = test.spec, test.policy
			pod.Spec.Containers[1].Resources = small
			s := parse(t, test.state)
			for i := range s.Containers {
				s.Containers[i].Spec = ""
			}
			s.Actuated, s.Cgroup = test.actuated, test.cgroup
			if s.Cgroup == nil {
				limits := qos.Limits(pod)
				s.Cgroup = &limits
			}
			d := Plan(pod, s, NewMemory(), t0)
			stops := ""
			for _, wave := range d.Stop {
				stops = wave[0].Message
				if wave[0].Resize != (test.policy != nil) {
					t.Errorf("stops %+v", wave[0])
				}
			}
			if len(d.Resize) != test.updates || stops != test.stops || d.ResizePod != test.pod || d.Resizing != test.resizing {
				t.Errorf("updates %d, stops %q, pod %v, resizing %v", len(d.Resize), stops, d.ResizePod, d.Resizing)
			}
			if test.updates > 0 && !d.Changes() {
				t.Error("nothing changes")
			}
		})
	}
}

// TestPlanSizeOfInit: an init container is resized while it runs, and no longer once it has ended.
func TestPlanSizeOfInit(t *testing.T) {
	for state, want := range map[string]int{"s0! | x0@s0:run": 1, "s0! | x0@s0:exit0": 0} {
		pod := testPod(corev1.RestartPolicyAlways, "x")
		pod.Spec.InitContainers[0].Resources = sizeOf("2", "1Gi")
		s, limits := parse(t, state), qos.Limits(pod)
		s.Containers[0].Spec = ""
		s.Actuated, s.Cgroup = map[string]corev1.ResourceRequirements{"x": sizeOf("1", "1Gi")}, &limits
		d := Plan(pod, s, NewMemory(), t0)
		if len(d.Resize) != want || d.Resizing != (want > 0) || len(d.Stop) != 0 {
			t.Errorf("Plan(%q) has %d updates, resizing %v and stops %v, want %d updates and no stops", state, len(d.Resize), d.Resizing, d.Stop, want)
		}
	}
}

func TestStatusSizes(t *testing.T) {
	pod := testPod(corev1.RestartPolicyAlways)
	small, large := sizeOf("1", "1Gi"), sizeOf("2", "2Gi")
	pod.Spec.Containers[0].Resources, pod.Spec.Containers[1].Resources = large, large
	o, _ := observe(t, pod, "s0! | a0@s0:run b0@s0:exit1")
	o.State.Actuated = map[string]corev1.ResourceRequirements{"a": small}
	o.State.Containers[0].Size = &resize.Reported{MilliRequest: 1500, MilliLimit: 1500, Memory: 1 << 30}
	o.ResizeInProgress = &corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, ObservedGeneration: 3}
	status := o.Status()
	a, b := status.ContainerStatuses[0], status.ContainerStatuses[1]
	if !resize.Same(*a.Resources, sizeOf("1500m", "1Gi")) || a.AllocatedResources.Cpu().Value() != 2 {
		t.Errorf("a has the resources %v and is allocated %v CPUs, want 1500m, 1Gi and 2 CPUs", a.Resources, a.AllocatedResources.Cpu())
	}
	if !resize.Same(*b.Resources, large) || b.AllocatedResources.Memory().Value() != 2<<30 {
		t.Errorf("b has the resources %v and is allocated %v of memory, want %v and 2Gi",
			b.Resources, b.AllocatedResources.Memory(), &large)
	}
	if status.AllocatedResources.Cpu().Value() != 4 || status.Resources.Requests.Cpu().Value() != 3 || status.Resources.Limits.Memory().Value() != 3<<30 {
		t.Errorf("pod: %+v %v", status.Resources, status.AllocatedResources)
	}
	if c := findCondition(&status, corev1.PodResizeInProgress); c == nil || c.ObservedGeneration != 3 {
		t.Errorf("conditions: %+v", status.Conditions)
	}
	// A resize that is over takes its condition away, here and from the API.
	o.Pod = o.Pod.DeepCopy()
	o.Pod.Status, o.ResizeInProgress = status, nil
	next := o.Status()
	if c := findCondition(&next, corev1.PodResizeInProgress); c != nil {
		t.Errorf("conditions: %+v", next.Conditions)
	}
	if merged := MergeStatus(&status, &next, t0); findCondition(&merged, corev1.PodResizeInProgress) != nil {
		t.Errorf("merged: %+v", merged.Conditions)
	}
	// Its new reason comes with a new time.
	later := metav1.Time{Time: t0.Add(1)}
	next.Conditions = append(next.Conditions, corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError, LastTransitionTime: later})
	merged := MergeStatus(&status, &next, t0)
	if c := findCondition(&merged, corev1.PodResizeInProgress); c == nil || c.Reason != corev1.PodReasonError || !c.LastTransitionTime.Equal(&later) {
		t.Errorf("merged: %+v", merged.Conditions)
	}
}
