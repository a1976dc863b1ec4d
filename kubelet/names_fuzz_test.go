package kubelet

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FuzzCheckNames: a pod whose names are accepted has its directories where they belong.
func FuzzCheckNames(f *testing.F) {
	for _, name := range []string{"web", "", ".", "..", "../x", "a/b", "/", "a//", "żółw", "a\x00b", "..data", strings.Repeat("x", 5000), "a\n", " "} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		const root = "/var/lib/kubelet/pods"
		for where, set := range map[string]func(*corev1.Pod){
			"uid": func(p *corev1.Pod) { p.UID = types.UID(name) }, "name": func(p *corev1.Pod) { p.Name = name }, "namespace": func(p *corev1.Pod) { p.Namespace = name },
			"container": func(p *corev1.Pod) { p.Spec.Containers[0].Name = name }, "init": func(p *corev1.Pod) { p.Spec.InitContainers[0].Name = name },
			"ephemeral": func(p *corev1.Pod) { p.Spec.EphemeralContainers[0].Name = name }, "volume": func(p *corev1.Pod) { p.Spec.Volumes[0].Name = name },
		} {
			pod := &corev1.Pod{}
			pod.UID, pod.Name, pod.Namespace = "uid", "web", "default"
			pod.Spec.Containers, pod.Spec.InitContainers = []corev1.Container{{Name: "a"}}, []corev1.Container{{Name: "b"}}
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "c"}}}
			pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
			set(pod)
			if checkNames(pod) == nil && filepath.Dir(filepath.Join(root, name)) != root {
				t.Errorf("%s %q leads to %s", where, name, filepath.Join(root, name))
			}
		}
	})
}
