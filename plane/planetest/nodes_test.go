package planetest_test

import (
	"errors"
	"testing"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestNodesWithLabels: a test gives its nodes what its scheduler looks at.
func TestNodesWithLabels(t *testing.T) {
	p := planetest.Start(t, planetest.Nodes(2, func(n *nodes.Config) {
		n.Kubelet = func(k *kubelet.Config) {
			k.Labels = map[string]string{"disk": n.Name + "-disk"}
			k.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}
		}
	}))
	for _, name := range []string{"node-1", "node-2"} {
		node, err := typed.Nodes(p.Client()).Get(t.Context(), "", name)
		if err != nil {
			t.Fatal(err)
		}
		if node.Labels["disk"] != name+"-disk" || node.Status.Capacity.Cpu().Value() != 7 {
			t.Errorf("%s: labels %v, capacity %v", name, node.Labels, node.Status.Capacity)
		}
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "web"
	pod.Spec.NodeSelector = map[string]string{"disk": "node-2-disk"}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
	if _, err := typed.Pods(p.Client()).Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, func() error {
		web, err := typed.Pods(p.Client()).Get(t.Context(), "default", "web")
		if err == nil && (web.Spec.NodeName != "node-2" || web.Status.Phase != corev1.PodRunning) {
			err = errors.New("the pod is " + string(web.Status.Phase) + " on " + web.Spec.NodeName)
		}
		return err
	})
}
