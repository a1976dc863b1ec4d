package staticpods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// FuzzManifest: whatever a manifest has, its pods have names and UIDs that are safe in paths, are
// bound to the node, and refer to no other objects. The same text gives the same UIDs.
func FuzzManifest(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: nginx}]}\n"))
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a","uid":"u"}}]}`))
	f.Add([]byte("kind: Pod\napiVersion: v1\nmetadata: &a {name: x, annotations: {b: c}}\nspec: {volumes: [{name: v, secret: {}}]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pods := manifestPods(t, data)
		for i, again := range manifestPods(t, data) {
			if again.UID != pods[i].UID {
				t.Errorf("UIDs %s and %s", pods[i].UID, again.UID)
			}
		}
	})
}

func manifestPods(t *testing.T, data []byte) (valid []*corev1.Pod) {
	b := builder{node: "node-1", source: sourceFile, complete: func(*corev1.Pod) error { return nil }}
	pods, err := b.decodePods(t.Context(), data)
	if err != nil {
		return nil
	}
	for _, pod := range pods {
		if b.prepare(pod, "/manifests/web.yaml") != nil {
			continue
		}
		valid = append(valid, pod)
		if !strings.HasSuffix(pod.Name, "-node-1") || pod.Spec.NodeName != "node-1" || pod.Spec.ServiceAccountName != "" || pod.Annotations[annotationHash] != string(pod.UID) {
			t.Errorf("the pod is %v, want a name that ends with -node-1, that node, no service account, and the UID as its hash", pod)
		}
		for _, name := range []string{pod.Name, pod.Namespace, string(pod.UID)} {
			if len(validation.IsDNS1123Subdomain(name)) > 0 {
				t.Errorf("%q is not a safe name", name)
			}
		}
	}
	return valid
}
