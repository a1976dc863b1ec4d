package nodes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMetrics reads from a node what it says about the start of a pod and its volumes.
func TestMetrics(t *testing.T) {
	p := planetest.Start(t, planetest.Nodes(1))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Image: "nginx"}},
			Volumes:    []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	if _, err := typed.Pods(p.Client()).Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	read := func(path string) (string, error) {
		answer, err := p.Client().Do(t.Context(), client.Request{Path: "/api/v1/nodes/node-1/proxy" + path})
		if err != nil {
			return "", err
		}
		return string(answer.Body), nil
	}
	planetest.Eventually(t, func() error {
		text, err := read("/metrics")
		if err != nil {
			return err
		}
		for _, want := range []string{
			"kubelet_pod_start_duration_seconds_count 1\n", "kubelet_pod_start_sli_duration_seconds_count 1\n", "kubelet_pod_start_total_duration_seconds_count 1\n",
			"kubelet_pod_worker_start_duration_seconds_count 1\n", `kubelet_pod_worker_duration_seconds_count{operation_type="create"} 1` + "\n",
			`kubelet_started_containers_total{container_type="container"} 1` + "\n",
			"kubelet_running_pods 1\n", `kubelet_running_containers{container_state="running"} 1` + "\n",
		} {
			if !strings.Contains(text, "\n"+want) {
				return fmt.Errorf("the metrics have no %s", want)
			}
		}
		return nil
	})
	text, err := read("/stats/summary")
	if err != nil {
		t.Fatal(err)
	}
	var summary server.Summary
	if err := json.Unmarshal([]byte(text), &summary); err != nil || len(summary.Pods) != 1 {
		t.Fatalf("Unmarshal(%s): %v, with %d pods, want 1", text, err, len(summary.Pods))
	}
	var names []string
	for _, v := range summary.Pods[0].Volumes {
		name, _, _ := strings.Cut(v.Name, "-access-") // the token's volume has a random name
		names = append(names, name)
	}
	if got := strings.Join(names, " "); got != "cache kube-api" {
		t.Errorf("volumes %q in %s", got, text)
	}
}
