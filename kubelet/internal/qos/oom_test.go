package qos_test

import (
	"testing"

	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func memory(request, limit string) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	if request != "" {
		r.Requests[corev1.ResourceMemory] = resource.MustParse(request)
	}
	if limit != "" {
		r.Limits[corev1.ResourceMemory] = resource.MustParse(limit)
	}
	return r
}

// TestOOMScore has the figures of Kubernetes v1.36 for a machine with 10 GB.
func TestOOMScore(t *testing.T) {
	sized := func(sizes ...corev1.ResourceRequirements) *corev1.Pod {
		pod := &corev1.Pod{}
		for _, r := range sizes {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "c", Resources: r})
		}
		return pod
	}
	with := func(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
		change(pod)
		return pod
	}
	guaranteed := memory("1G", "1G")
	guaranteed.Requests[corev1.ResourceCPU], guaranteed.Limits[corev1.ResourceCPU] = resource.MustParse("1"), resource.MustParse("1")
	critical := func(pod *corev1.Pod) {
		pod.Spec.PriorityClassName, pod.Spec.Priority = "system-node-critical", new(int32(2000001000))
	}
	sidecar := func(r corev1.ResourceRequirements) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Resources: r}}
		}
	}
	whole := func(request string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Resources = new(memory(request, "")) }
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		init bool
		want int64
	}{
		"best effort":            {sized(memory("", "")), false, 1000},
		"guaranteed":             {sized(guaranteed), false, -997},
		"nothing":                {sized(memory("", "1G")), false, 999},
		"a tenth":                {sized(memory("1G", "")), false, 900},
		"a hundred thousandth":   {sized(memory("100k", "")), false, 999},
		"all":                    {sized(memory("10G", "")), false, 3},
		"more than all":          {sized(memory("4E", "")), false, 3},
		"critical":               {with(sized(memory("1G", "")), critical), false, -997},
		"critical by name alone": {with(sized(memory("1G", "")), func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "system-node-critical" }), false, 900},
		"critical for the cluster": {with(sized(memory("1G", "")), func(pod *corev1.Pod) {
			pod.Spec.PriorityClassName, pod.Spec.Priority = "system-cluster-critical", new(int32(2000000000))
		}), false, 900},
		"critical and static": {with(sized(memory("1G", "")), func(pod *corev1.Pod) {
			pod.Spec.PriorityClassName, pod.Annotations = "system-node-critical", map[string]string{"kubernetes.io/config.source": "file"}
		}), false, -997},
		"small sidecar":            {with(sized(memory("2G", ""), memory("1G", "")), sidecar(memory("100M", ""))), true, 900},
		"large sidecar":            {with(sized(memory("2G", ""), memory("1G", "")), sidecar(memory("3G", ""))), true, 700},
		"beside a sidecar":         {with(sized(memory("2G", ""), memory("1G", "")), sidecar(memory("3G", ""))), false, 800},
		"whole pod":                {with(sized(memory("1G", ""), memory("", "")), whole("3G")), false, 800},
		"whole pod with a sidecar": {with(with(sized(memory("1G", ""), memory("", "")), whole("4G")), sidecar(memory("", ""))), true, 900},
	} {
		c := &test.pod.Spec.Containers[0]
		if test.init {
			c = &test.pod.Spec.InitContainers[0]
		}
		if got := qos.OOMScore(test.pod, c, 10e9); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestBurstableShares(t *testing.T) {
	pod := func(class corev1.PodQOSClass, cpu string) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{QOSClass: class}}
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
		return p
	}
	for _, test := range []struct {
		pods []*corev1.Pod
		want int64
	}{
		{nil, 2},
		{[]*corev1.Pod{pod(corev1.PodQOSGuaranteed, "4"), pod(corev1.PodQOSBestEffort, "0")}, 2},
		{[]*corev1.Pod{pod(corev1.PodQOSBurstable, "1m")}, 2},
		{[]*corev1.Pod{pod(corev1.PodQOSBurstable, "500m"), pod(corev1.PodQOSBurstable, "1500m"), pod(corev1.PodQOSGuaranteed, "4")}, 2048},
		{[]*corev1.Pod{pod(corev1.PodQOSBurstable, "8E"), pod(corev1.PodQOSBurstable, "8E"), pod(corev1.PodQOSBurstable, "8E")}, 262144},
	} {
		if got := qos.BurstableShares(test.pods); got != test.want {
			t.Errorf("%d, want %d", got, test.want)
		}
	}
}

func TestClassOfWholePod(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Spec.Containers = []corev1.Container{{Resources: memory("1G", "1G")}}
	for _, test := range []struct {
		own  corev1.ResourceRequirements
		want corev1.PodQOSClass
	}{
		{corev1.ResourceRequirements{}, corev1.PodQOSBestEffort},
		{memory("1G", "2G"), corev1.PodQOSBurstable},
		{corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1G")}}, corev1.PodQOSGuaranteed},
	} {
		pod.Spec.Resources = &test.own
		if got := qos.Class(pod); got != test.want {
			t.Errorf("%+v: %s, want %s", test.own, got, test.want)
		}
	}
}
