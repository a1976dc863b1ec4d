package kubelet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/eviction"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// evicted reports whether a pod has failed with a message, which may be its beginning.
func evicted(message string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		if pod == nil || pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Evicted" || !strings.HasPrefix(pod.Status.Message, message) {
			return false
		}
		c := podCondition(pod, corev1.DisruptionTarget)
		return strings.HasPrefix(message, "Pod was rejected") == (c == nil) && (c == nil || c.Status == corev1.ConditionTrue && c.Reason == "TerminationByKubelet")
	}
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// TestLimitsOfLocalStorage: a pod that writes more than its volume, or its container, may have is
// evicted, and its neighbour is not.
func TestLimitsOfLocalStorage(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.config.Eviction.Interval = 20 * time.Millisecond
	r.start()
	volume := func(limit string) []corev1.Volume {
		return []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse(limit))}}}}
	}
	small, large, chatty, hosts := webPod("small"), webPod("large"), webPod("chatty"), webPod("hosts")
	small.Spec.Volumes, large.Spec.Volumes = volume("64Ki"), volume("1Gi")
	for _, pod := range []*corev1.Pod{chatty, hosts} {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("64Ki")}
	}
	for _, pod := range []*corev1.Pod{small, large, chatty, hosts} {
		created := r.api.create(pod)
		r.api.await(t, pod.Name, "running", running)
		path := filepath.Join(r.config.Root, "pods", string(created.UID), "volumes/kubernetes.io~empty-dir/scratch/data")
		if pod == chatty {
			path = filepath.Join(r.config.LogRoot, "default_chatty_"+string(created.UID), "web", "0.log")
		}
		if pod == hosts { // which a container can write to
			path = filepath.Join(r.config.Root, "pods", string(created.UID), "etc-hosts")
		}
		if err := os.WriteFile(path, make([]byte, 128<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.api.await(t, "small", "evicted", evicted(`Usage of EmptyDir volume "scratch" exceeds the limit "64Ki". `))
	r.api.await(t, "chatty", "evicted", evicted("Pod ephemeral local storage usage exceeds the total limit of containers 64Ki. "))
	r.api.await(t, "hosts", "evicted", evicted("Pod ephemeral local storage usage exceeds the total limit of containers 64Ki. "))
	r.api.awaitEvent(t, "small", "Evicted", `Usage of EmptyDir volume "scratch" exceeds the limit "64Ki". `)
	r.api.await(t, "large", "running", running)
	// What an evicted pod has written is gone when the Pod is.
	r.api.delete("small", 0)
	r.api.await(t, "small", "gone", gone)
}

// TestPressure: under a pressure that nothing relieves, all pods but the critical ones are evicted, the
// least important first, and new pods are refused.
func TestPressure(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	thresholds, err := eviction.Parse(eviction.Settings{Hard: map[string]string{"memory.available": "100%"}})
	if err != nil {
		t.Fatal(err)
	}
	// Without an interval that short, pods could not be started before the first look.
	r.config.Eviction = kubelet.Eviction{Thresholds: []eviction.Threshold{}, Interval: 20 * time.Millisecond}
	r.start()
	for name, priority := range map[string]int32{"low": 0, "high": 1000, "critical": 2_000_000_000} {
		pod := webPod(name)
		pod.Spec.Priority = &priority
		r.api.create(pod)
		r.api.await(t, name, "running", running)
	}
	r.stop()
	r.config.Eviction.Thresholds = thresholds
	r.start()
	const message = "The node was low on resource: memory. Threshold quantity: "
	r.api.await(t, "low", "evicted", evicted(message))
	r.api.await(t, "high", "evicted", evicted(message))
	r.api.await(t, "critical", "running", running)
	refused := webPod("refused")
	r.api.create(refused)
	r.api.await(t, "refused", "rejected", evicted("Pod was rejected: The node had condition: [MemoryPressure]. "))
	r.api.awaitEvent(t, "refused", "Evicted", "The node had condition: [MemoryPressure]. ")
	requests := webPod("requests")
	requests.Spec.Priority = new(int32(2_000_000_000))
	r.api.create(requests)
	r.api.await(t, "requests", "running", running)
	eventually(t, "the node reports the pressure", func() bool {
		node, err := nodeAPI{r.api}.Get(t.Context(), "", "node-1")
		return err == nil && nodeCondition(node, corev1.NodeMemoryPressure) == corev1.ConditionTrue
	})
}

// TestReclaim: under a pressure of the images' file system, unused images go before pods do.
func TestReclaim(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.start()
	for name, image := range map[string]string{"old": "registry.example/old:1", "web": "registry.example/web:1"} {
		pod := webPod(name)
		pod.Spec.Containers[0].Image = image
		r.api.create(pod)
		r.api.await(t, name, "running", running)
	}
	r.api.delete("old", 0)
	r.api.await(t, "old", "gone", gone)
	r.stop()
	thresholds, err := eviction.Parse(eviction.Settings{Hard: map[string]string{"imagefs.available": "100%"}})
	if err != nil {
		t.Fatal(err)
	}
	r.config.Eviction = kubelet.Eviction{Thresholds: thresholds, Interval: 20 * time.Millisecond}
	r.config.ImageGC = kubelet.ImageGC{High: 99, MinAge: time.Nanosecond}
	r.start()
	eventually(t, "the unused image is removed, and the other is not", func() bool {
		list, err := r.client.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
		return err == nil && len(list.Images) == 1 && list.Images[0].RepoTags[0] == "registry.example/web:1"
	})
	r.api.await(t, "web", "evicted", evicted("The node was low on resource: ephemeral-storage. "))
}

// nodeCondition returns the status of a condition of a node.
func nodeCondition(node *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}
