package schedule

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestClassKey checks what makes pods of different classes, and what does not.
func TestClassKey(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		const token = tokenVolume + "abcde"
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "1", Labels: map[string]string{"app": "web", "tier": "front"}},
			Spec: corev1.PodSpec{
				Volumes:    []corev1.Volume{{Name: token}},
				Containers: []corev1.Container{{Name: "web", Image: "nginx", VolumeMounts: []corev1.VolumeMount{{Name: token, MountPath: "/token"}}}},
			},
		}
		if change != nil {
			change(p)
		}
		return p
	}
	want, ok := newClassKey(pod(nil))
	if !ok {
		t.Fatal("no class")
	}
	for _, test := range []struct {
		name   string
		same   bool
		change func(*corev1.Pod)
	}{
		{"another name and UID", true, func(p *corev1.Pod) { p.Name, p.UID, p.ResourceVersion = "web-2", "2", "7" }},
		{"a condition", true, func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled}} }},
		{"another generated name", true, func(p *corev1.Pod) {
			p.Spec.Volumes[0].Name, p.Spec.Containers[0].VolumeMounts[0].Name = tokenVolume+"fghij", tokenVolume+"fghij"
		}},
		{"another namespace", false, func(p *corev1.Pod) { p.Namespace = "office" }},
		{"another label", false, func(p *corev1.Pod) { p.Labels["tier"] = "back" }},
		{"an annotation", false, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }},
		{"an owner", false, func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Name: "web"}} }},
		{"a node selector", false, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }},
		{"a node", false, func(p *corev1.Pod) { p.Spec.NodeName = "n1" }},
		{"another volume", false, func(p *corev1.Pod) { p.Spec.Volumes[0].Name = "data" }},
		{"a resize", false, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
		}},
	} {
		got, ok := newClassKey(pod(test.change))
		if !ok || (got == want) != test.same {
			t.Errorf("%s: the same class: %t", test.name, got == want)
		}
	}
}
