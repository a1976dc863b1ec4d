package qos_test

import (
	"testing"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestLimits(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		if cpu != "" {
			out[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			out[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	pod := func(change func(*corev1.PodSpec), limits ...corev1.ResourceList) *corev1.Pod {
		p := &corev1.Pod{}
		for _, l := range limits {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: l, Limits: l}})
		}
		if change != nil {
			change(&p.Spec)
		}
		return p
	}
	const mebi = 1 << 20
	container := func(l corev1.ResourceList) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: l, Limits: l}}
	}
	sidecar := func(l corev1.ResourceList) corev1.Container {
		c := container(l)
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		return c
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want cgroup.Limits
	}{
		"best effort": {pod(nil, nil, nil), cgroup.Limits{Shares: 2}},
		"all limited": {pod(nil, list("500m", "64Mi"), list("1", "64Mi")), cgroup.Limits{Shares: 1536, Quota: 150000, Memory: 128 * mebi}},
		"one is not":  {pod(nil, list("500m", "64Mi"), list("1", "")), cgroup.Limits{Shares: 1536, Quota: 150000}},
		"init container": {pod(func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{}} }, list("1", "64Mi")),
			cgroup.Limits{Shares: 1024}},
		"large init container": {pod(func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{container(list("2", "32Mi"))} }, list("1", "64Mi")),
			cgroup.Limits{Shares: 2048, Quota: 200000, Memory: 64 * mebi}},
		"sidecar": {pod(func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{sidecar(list("500m", "32Mi"))} }, list("1", "64Mi")),
			cgroup.Limits{Shares: 1536, Quota: 150000, Memory: 96 * mebi}},
		"sidecar without limits": {pod(func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{sidecar(nil)} }, list("1", "64Mi")),
			cgroup.Limits{Shares: 1024}},
		"after a sidecar": {pod(func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{sidecar(list("500m", "32Mi")), container(nil)}
		}, list("1", "64Mi")), cgroup.Limits{Shares: 1536, Quota: 150000, Memory: 96 * mebi}},
		"little": {pod(nil, list("1m", "")), cgroup.Limits{Shares: 2, Quota: 1000}},
		"much":   {pod(nil, list("9000", "")), cgroup.Limits{Shares: 262144, Quota: 900000000}},
		"overhead": {pod(func(s *corev1.PodSpec) { s.Overhead = list("250m", "16Mi") }, list("500m", "64Mi")),
			cgroup.Limits{Shares: 768, Quota: 75000, Memory: 80 * mebi}},
		"pod as a whole": {pod(func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Requests: list("2", ""), Limits: list("3", "256Mi")}
			s.Overhead = list("", "16Mi")
		}, list("500m", "64Mi"), nil), cgroup.Limits{Shares: 2048, Quota: 300000, Memory: 272 * mebi}},
	} {
		if got := qos.Limits(test.pod); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
