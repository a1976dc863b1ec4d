package resize

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestRequested(t *testing.T) {
	pod := func(requests, limits corev1.ResourceList) *corev1.Pod {
		c := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c, {Name: "other"}}}}
	}
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	for _, test := range []struct {
		old, pod *corev1.Pod
		want     string
	}{
		{pod(nil, nil), pod(nil, nil), ""},
		{pod(list("1", "1Gi"), nil), pod(list("1000m", "1024Mi"), nil), ""},
		{pod(list("1", ""), nil), pod(list("2", ""), nil), "cpu requests increase"},
		{pod(list("2", "1Gi"), list("3", "")), pod(list("1", ""), list("", "2Gi")), "cpu limits remove, cpu requests decrease, memory limits add, memory requests remove"},
	} {
		var got []string
		for _, r := range Requested(test.old, test.pod) {
			got = append(got, r.Resource+" "+r.Requirement+" "+r.Operation)
		}
		slices.Sort(got)
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("got %q, want %q", text, test.want)
		}
	}
}
