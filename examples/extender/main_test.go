package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/extender"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSmall: an extender is shorter than 60 lines.
func TestSmall(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(source), "\n"); lines >= 60 {
		t.Errorf("main.go has %d lines", lines)
	}
}

// TestCluster asks the extender about the pods of a control plane with a node in each of three zones. One pod
// is placed by it, and one that may only run where there is no power is refused, with the reason in its
// status.
func TestCluster(t *testing.T) {
	p := prices{"north": 7, "south": 2}
	server := httptest.NewServer(extender.Handler{Filter: p.filter, Prioritize: p.prioritize})
	defer server.Close()
	power, err := extender.New(extender.Config{URLPrefix: server.URL, FilterVerb: "filter", PrioritizeVerb: "prioritize", Weight: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer power.Close()
	zones := map[string]string{"node-1": "north", "node-2": "south", "node-3": "dark"}
	cluster := planetest.Start(t,
		planetest.Nodes(len(zones), func(c *nodes.Config) {
			c.Kubelet = func(k *kubelet.Config) { k.Labels = map[string]string{corev1.LabelTopologyZone: zones[c.Name]} }
		}),
		planetest.With(func(c *plane.Config) {
			c.Scheduler = func(s *schedule.Config) { extender.Add(s, power) }
		}))
	all := typed.Pods(cluster.Client())
	create := func(name string, selector map[string]string) {
		_, err := all.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.PodSpec{NodeSelector: selector, Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	await := func(name string, is func(*corev1.Pod) bool) {
		t.Helper()
		planetest.Eventually(t, func() error {
			pod, err := all.Get(t.Context(), "default", name)
			if err == nil && !is(pod) {
				err = fmt.Errorf("%s is on %q: %+v", name, pod.Spec.NodeName, pod.Status.Conditions)
			}
			return err
		})
	}
	create("web", nil)
	await("web", func(p *corev1.Pod) bool { return p.Spec.NodeName == "node-2" })
	create("lost", map[string]string{corev1.LabelTopologyZone: "dark"})
	await("lost", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable &&
				strings.HasPrefix(c.Message, "0/3 nodes are available: 1 node(s) were in a zone without power, 2 node(s) didn't match Pod's node affinity/selector.")
		})
	})
}
