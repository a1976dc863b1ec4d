package planetest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNodeRefuses: pods that were bound by hand to a node that has no room for them, or cannot run
// them, fail, and the table of pods says why.
func TestNodeRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planetest.Start(t, planetest.WithoutNetwork(), planetest.Nodes(1))
		requests := func(name corev1.ResourceName, amount string) func(*corev1.PodSpec) {
			return func(s *corev1.PodSpec) {
				s.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(amount)}
			}
		}
		port := func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
		}
		for _, pod := range []struct {
			name   string
			change func(*corev1.PodSpec)
		}{
			{"first", port},
			{"large", requests(corev1.ResourceCPU, "5000")},
			{"memory", requests(corev1.ResourceMemory, "1Pi")},
			{"port", port},
			{"selector", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"zone": "nowhere"} }},
			{"sysctl", func(s *corev1.PodSpec) {
				s.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.core.somaxconn", Value: "1024"}}}
			}},
		} {
			made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod.name}}
			made.Spec.NodeName = "node-1"
			made.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
			pod.change(&made.Spec)
			if _, err := typed.Pods(p.Client()).Create(t.Context(), made); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		answer, err := p.Client().Do(t.Context(), client.Request{
			Path: "/api/v1/namespaces/default/pods", Accept: "application/json;as=Table;v=v1;g=meta.k8s.io",
		})
		if err != nil {
			t.Fatal(err)
		}
		var table metav1.Table
		if err := json.Unmarshal(answer.Body, &table); err != nil {
			t.Fatal(err)
		}
		var rows []string
		for _, row := range table.Rows {
			rows = append(rows, fmt.Sprint(row.Cells[:3]...))
		}
		slices.Sort(rows)
		want := []string{"first1/1Running", "large0/1OutOfcpu", "memory0/1OutOfmemory", "port0/1NodePorts", "selector0/1NodeAffinity", "sysctl0/1SysctlForbidden"}
		if !slices.Equal(rows, want) {
			t.Errorf("%q, want %q", rows, want)
		}
		large, err := typed.Pods(p.Client()).Get(t.Context(), "default", "large")
		if err != nil || large.Status.Phase != corev1.PodFailed ||
			!strings.HasPrefix(large.Status.Message, "Pod was rejected: Node didn't have enough resource: cpu, requested: 5000000, used: 0, capacity: ") {
			t.Errorf("Get(large) = %v, %v, want phase Failed and a message about cpu, requested: 5000000, used: 0", large, err)
		}
		if err := typed.Pods(p.Client()).Delete(t.Context(), "default", "large", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, ok := p.Caches.Pods.Get("default/large"); ok {
			t.Error("a refused pod that was deleted is still there")
		}
	})
}
