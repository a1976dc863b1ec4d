package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/planekit/planekit/admission/initialresources"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kubelet/server"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podOf is a pod of one container.
func podOf(name, image string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: image}}
	return pod
}

// TestInitialResources runs pods of an image until it is known what it uses: a pod
// of the same image that says nothing requests that.
func TestInitialResources(t *testing.T) {
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "2",
		"--enable-admission-plugins", "NodeRestriction,InitialResources", "--ir-sample-interval", "1s")
	pods := typed.Pods(cluster.client(t))
	create := func(pod *corev1.Pod) *corev1.Pod {
		t.Helper()
		made, err := pods.Create(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	for _, name := range []string{"one", "two"} {
		if made := create(podOf(name, "nginx:1.27")); made.Spec.Containers[0].Resources.Requests != nil {
			t.Fatalf("requested of nothing: %v", made.Spec.Containers[0].Resources)
		}
	}
	deadline := time.Now().Add(patience)
	three := podOf("three", "nginx:1.27")
	made := create(three)
	for ; made.Annotations[initialresources.Annotation] == ""; made = create(three) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is estimated: %+v", made)
		}
		if err := pods.Delete(t.Context(), "default", "three", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
	if got := made.Annotations[initialresources.Annotation]; got != "Initial Resources plugin set: cpu, memory request for container c" {
		t.Errorf("the annotation is %q, want %q", got, "Initial Resources plugin set: cpu, memory request for container c")
	}
	// What simulated containers use; a rate is off by the time of the measurement.
	requests := made.Spec.Containers[0].Resources.Requests
	if cpu := requests.Cpu().MilliValue(); cpu < 9 || cpu > 11 || requests.Memory().Value() != 16<<20 {
		t.Errorf("requested %v, want 10m and 16Mi", requests)
	}
	// Another tag of the image is estimated too, another image is not, and what a pod
	// says itself stays.
	if r := create(podOf("tag", "nginx:1.28")).Spec.Containers[0].Resources.Requests; r.Memory().Value() != 16<<20 {
		t.Errorf("another tag requests %v", r)
	}
	if r := create(podOf("other", "busybox")).Spec.Containers[0].Resources.Requests; r != nil {
		t.Errorf("another image requests %v", r)
	}
	says := podOf("says", "nginx:1.27")
	says.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	made = create(says)
	requests = made.Spec.Containers[0].Resources.Requests
	if made.Annotations[initialresources.Annotation] != "" || requests.Cpu().MilliValue() != 1000 || requests.Memory().Value() != 1<<30 {
		t.Errorf("Create(says) = %+v, want no annotation %s, and 1 CPU and 1Gi requested, which are its limits", made, initialresources.Annotation)
	}
}

// TestStatsByTheNodesProxy is the way by which people look at what is used.
func TestStatsByTheNodesProxy(t *testing.T) {
	cluster := start(t, t.TempDir(), "--storage", "memory")
	api := cluster.client(t)
	if _, err := typed.Pods(api).Create(t.Context(), podOf("web", "nginx")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		answer, err := api.Do(t.Context(), client.Request{Path: "/api/v1/nodes/node-1/proxy/stats/summary"})
		if err != nil {
			t.Fatal(err)
		}
		var s server.Summary
		if err := json.Unmarshal(answer.Body, &s); err != nil {
			t.Fatal(err)
		}
		if s.Node.NodeName == "node-1" && len(s.Pods) == 1 && s.Pods[0].PodRef.Name == "web" && *s.Pods[0].Memory.WorkingSetBytes == 16<<20 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("GET stats/summary of node-1 = %s, want only the pod web with a working set of %d bytes", answer.Body, 16<<20)
		}
	}
}
