package core

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// amounts returns a list such as cpu 1, memory 1Gi; an empty text leaves one out.
func amounts(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

// sized is a pod with an init container, a sidecar and a main container.
func sized() *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: 3, Labels: map[string]string{"app": "web"}}}
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "setup", Image: "busybox", Resources: corev1.ResourceRequirements{Requests: amounts("100m", "")}},
		{Name: "proxy", Image: "envoy", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: amounts("100m", "")}},
	}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx", Resources: corev1.ResourceRequirements{
		Requests: amounts("100m", "100Mi"), Limits: amounts("200m", "200Mi"),
	}}}
	pod.Status.QOSClass = corev1.PodQOSBurstable
	podspec.DefaultPod(pod)
	return pod
}

func TestResize(t *testing.T) {
	web := func(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
	for _, test := range []struct {
		name   string
		before func(*corev1.Pod) // changes the stored pod; may be nil
		change func(*corev1.Pod)
		want   string // an error
		same   bool   // the generation stays
	}{
		{name: "nothing", change: func(*corev1.Pod) {}, same: true},
		{name: "more cpu", change: func(p *corev1.Pod) { web(p).Resources.Requests[corev1.ResourceCPU] = resource.MustParse("150m") }},
		{name: "less memory", change: func(p *corev1.Pod) { web(p).Resources.Limits[corev1.ResourceMemory] = resource.MustParse("150Mi") }},
		{name: "a sidecar", change: func(p *corev1.Pod) {
			p.Spec.InitContainers[1].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
		}},
		{name: "an init container", change: func(p *corev1.Pod) {
			p.Spec.InitContainers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
		}},
		{name: "a limit is added", change: func(p *corev1.Pod) { p.Spec.InitContainers[1].Resources.Limits = amounts("1", "") }},
		{name: "the pod as a whole", before: func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("1", "1Gi"), Limits: amounts("2", "2Gi")}
		}, change: func(p *corev1.Pod) { p.Spec.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("3") }},
		{name: "the pod as a whole, at first", change: func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("1", "1Gi")}
		}},
		{name: "the pod as a whole, removed", before: func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("1", "1Gi")}
		}, change: func(p *corev1.Pod) { p.Spec.Resources = nil }, want: "spec.resources: Forbidden: pod-level resources cannot be removed"},
		{name: "a request of the pod as a whole, removed", before: func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("1", "1Gi")}
		}, change: func(p *corev1.Pod) { p.Spec.Resources.Requests = amounts("1", "") },
			want: "spec.resources.requests: Forbidden: pod-level resource requests cannot be removed"},
		{name: "other fields are ignored", change: func(p *corev1.Pod) {
			web(p).Image, p.Labels, p.Status.Phase, p.Spec.NodeName = "other", nil, corev1.PodFailed, "elsewhere"
		}, same: true},
		{name: "the class", change: func(p *corev1.Pod) {
			for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
				for i := range list {
					list[i].Resources = corev1.ResourceRequirements{Requests: amounts("1", "1Gi"), Limits: amounts("1", "1Gi")}
				}
			}
		}, want: "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing"},
		{name: "a request removed", change: func(p *corev1.Pod) {
			web(p).Resources.Requests, web(p).Resources.Limits = amounts("100m", ""), amounts("200m", "")
		},
			want: "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"},
		{name: "a request of a sidecar removed", change: func(p *corev1.Pod) { p.Spec.InitContainers[1].Resources.Requests = nil },
			want: "spec.initContainers[1].resources.requests: Forbidden: resource requests cannot be removed"},
		{name: "storage", change: func(p *corev1.Pod) {
			web(p).Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
		}, want: "spec: Forbidden: only cpu and memory resources are mutable"},
		{name: "storage of a sidecar", change: func(p *corev1.Pod) {
			p.Spec.InitContainers[1].Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
		}, want: "spec.initContainers[1]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable"},
		{name: "the resize policy", change: func(p *corev1.Pod) {
			web(p).ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		}, want: "spec: Forbidden: only cpu and memory resources are mutable"},
		{name: "a request above the limit", change: func(p *corev1.Pod) { web(p).Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1") },
			want: "must be less than or equal to cpu limit of 200m"},
		{name: "a container more", change: func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other", Image: "nginx"})
		}, want: "spec.containers: Forbidden: containers may not be added or removed on resize"},
		{name: "another name", change: func(p *corev1.Pod) { web(p).Name = "other" },
			want: "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"},
		{name: "other init containers", change: func(p *corev1.Pod) {
			p.Spec.InitContainers[0], p.Spec.InitContainers[1] = p.Spec.InitContainers[1], p.Spec.InitContainers[0]
		}, want: "spec.initContainers[0].name: Forbidden: initContainers may not be renamed or reordered on resize"},
		{name: "a mirror pod", before: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} },
			change: func(p *corev1.Pod) { web(p).Resources.Requests[corev1.ResourceCPU] = resource.MustParse("150m") },
			want:   "static pods cannot be resized"},
		{name: "a node that cannot", before: func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, change: func(p *corev1.Pod) { web(p).Resources.Requests[corev1.ResourceCPU] = resource.MustParse("150m") },
			want: "spec: Forbidden: Pod running on node without support for resize"},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := sized()
			if test.before != nil {
				test.before(old)
			}
			stored := old.DeepCopy()
			pod := old.DeepCopy()
			test.change(pod)
			podspec.DefaultPod(pod)
			updatePodSize(pod, old)
			err := validateResize(pod, old).ToAggregate()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v, want %q", err, test.want)
			}
			if err == nil && (pod.Generation == old.Generation) != test.same {
				t.Errorf("generation %d after %d", pod.Generation, old.Generation)
			}
			if err == nil && (pod.Labels["app"] != "web" || pod.Spec.Containers[0].Image != "nginx" || pod.Status.Phase != old.Status.Phase || pod.Spec.NodeName != "") {
				t.Errorf("more than sizes has changed: %+v", pod)
			}
			if old.String() != stored.String() {
				t.Error("the stored pod was changed")
			}
		})
	}
}

func TestResizePolicy(t *testing.T) {
	policy := func(name corev1.ResourceName, restart corev1.ResourceResizeRestartPolicy) corev1.ContainerResizePolicy {
		return corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: restart}
	}
	for _, test := range []struct {
		policies []corev1.ContainerResizePolicy
		restart  corev1.RestartPolicy
		want     string
	}{
		{[]corev1.ContainerResizePolicy{policy("cpu", "NotRequired"), policy("memory", "RestartContainer")}, "", ""},
		{[]corev1.ContainerResizePolicy{policy("cpu", "NotRequired"), policy("cpu", "NotRequired")}, "", `spec.containers[0].resizePolicy[1]: Duplicate value: "cpu"`},
		{[]corev1.ContainerResizePolicy{policy("ephemeral-storage", "NotRequired")}, "", `spec.containers[0].resizePolicy: Unsupported value: "ephemeral-storage": supported values: "cpu", "memory"`},
		{[]corev1.ContainerResizePolicy{policy("cpu", "Sometimes")}, "", `spec.containers[0].resizePolicy: Unsupported value: "Sometimes": supported values: "NotRequired", "RestartContainer"`},
		{[]corev1.ContainerResizePolicy{policy("cpu", "")}, "", "spec.containers[0].resizePolicy: Required value"},
		{[]corev1.ContainerResizePolicy{policy("cpu", "RestartContainer")}, "Never", "must be 'NotRequired' when pod `restartPolicy` is 'Never'"},
	} {
		pod := sized()
		pod.Spec.Containers[0].ResizePolicy = test.policies
		if test.restart != "" {
			pod.Spec.RestartPolicy = test.restart
		}
		err := validatePod(pod).ToAggregate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.policies, err, test.want)
		}
	}
	pod := sized()
	pod.Spec.InitContainers[0].ResizePolicy = []corev1.ContainerResizePolicy{policy("cpu", "RestartContainer")}
	if err := validatePod(pod).ToAggregate(); err == nil || !strings.Contains(err.Error(), "must not be set to 'RestartContainer' for non-sidecar initContainers") {
		t.Error(err)
	}
}
