package qos_test

import (
	"fmt"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestSameAsKubernetes compares random pods with the figures of Kubernetes v1.36.3: the results of its
// GetPodQOS, ResourceConfigForPod and, on a machine with 8 GiB, GetContainerOOMScoreAdjust. A line has a
// seed, the class, shares, quota, memory, bytes of huge pages of 2 MiB, and the scores of the containers.
func TestSameAsKubernetes(t *testing.T) {
	data, err := os.ReadFile("testdata/kubernetes.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		var seed int64
		if _, err := fmt.Sscan(line, &seed); err != nil {
			t.Fatal(err)
		}
		pod := randomPod(seed)
		l := qos.Limits(pod)
		got := fmt.Sprint(seed, " ", qos.Class(pod), " ", l.Shares, " ", l.Quota, " ", l.Memory, " ", qos.HugePages(pod)[2<<20])
		for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range list {
				got += fmt.Sprint(" ", qos.OOMScore(pod, &list[i], 8<<30))
			}
		}
		if got != line {
			t.Errorf("got %s\nwant %s", got, line)
		}
		lines++
	}
	if lines < 400 {
		t.Errorf("only %d pods", lines)
	}
}

// randomPod returns the pod of a seed.
func randomPod(seed int64) *corev1.Pod {
	r := rand.New(rand.NewSource(seed))
	pod := &corev1.Pod{}
	for i := 0; i <= r.Intn(3); i++ {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Resources: randomSize(r)})
	}
	for i := r.Intn(4); i > 1; i-- {
		c := corev1.Container{Name: fmt.Sprint("i", i), Resources: randomSize(r)}
		if r.Intn(2) == 0 {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if r.Intn(4) == 0 {
		pod.Spec.Resources = new(randomSize(r))
	}
	if r.Intn(4) == 0 {
		pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("16Mi")}
	}
	if r.Intn(8) == 0 {
		pod.Spec.PriorityClassName, pod.Spec.Priority = "system-node-critical", new(int32(1999999999+r.Intn(2)))
	}
	if r.Intn(8) == 0 {
		pod.Annotations = map[string]string{"kubernetes.io/config.source": []string{"api", "file"}[r.Intn(2)]}
	}
	return pod
}

// randomSize returns requests and limits. A request is at most its limit.
func randomSize(r *rand.Rand) corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	mode := r.Intn(4)
	set := func(name corev1.ResourceName, values ...string) {
		request, limit := resource.MustParse(values[r.Intn(len(values))]), resource.MustParse(values[r.Intn(len(values))])
		if request.Cmp(limit) > 0 {
			request, limit = limit, request
		}
		kind := r.Intn(4)
		switch {
		case mode == 0:
			kind = 0
		case mode == 1, name == "hugepages-2Mi" && kind > 0:
			kind = 3
		}
		switch kind {
		case 1:
			out.Requests[name] = request
		case 2:
			out.Requests[name], out.Limits[name] = request, limit
		case 3:
			out.Requests[name], out.Limits[name] = request, request
		}
	}
	set(corev1.ResourceCPU, "1m", "5m", "100m", "250m", "1", "3", "300")
	set(corev1.ResourceMemory, "1", "4096", "10Mi", "64Mi", "1Gi", "9Gi")
	if r.Intn(5) == 0 {
		set("hugepages-2Mi", "2Mi", "4Mi")
	}
	return out
}
