package core

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEphemeralContainers(t *testing.T) {
	debugger := func(name string) corev1.EphemeralContainer {
		return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "busybox"}}
	}
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: 3, Labels: map[string]string{"app": "web"}}}
	old.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
	old.Spec.EphemeralContainers = []corev1.EphemeralContainer{debugger("first")}
	podspec.DefaultPod(old)
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string // an error
		grows  bool
	}{
		{"nothing", func(*corev1.Pod) {}, "", false},
		{"another one", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, debugger("second"))
			p.Labels, p.Spec.Containers[0].Image, p.Status.Phase = nil, "other", corev1.PodFailed // ignored
		}, "", true},
		{"a target", func(p *corev1.Pod) {
			d := debugger("second")
			d.TargetContainerName = "web"
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, d)
		}, "", true},
		{"no such target", func(p *corev1.Pod) {
			d := debugger("second")
			d.TargetContainerName = "none"
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, d)
		}, `spec.ephemeralContainers[1].targetContainerName: Not found: "none"`, true},
		{"the name of another", func(p *corev1.Pod) { p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, debugger("web")) },
			`spec.ephemeralContainers[1].name: Duplicate value: "web"`, true},
		{"removed", func(p *corev1.Pod) { p.Spec.EphemeralContainers = nil }, `existing ephemeral containers "first" may not be removed`, true},
		{"changed", func(p *corev1.Pod) { p.Spec.EphemeralContainers[0].Image = "other" }, "existing ephemeral containers \"first\" may not be changed\nchanged: image", true},
		{"a port", func(p *corev1.Pod) {
			d := debugger("second")
			d.Ports = []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, d)
		}, "cannot be set for an Ephemeral Container", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := old.DeepCopy()
			test.change(pod)
			podspec.DefaultPod(pod)
			updateEphemeralContainers(pod, old)
			if grown := pod.Generation > old.Generation; grown != test.grows {
				t.Errorf("generation %d after %d", pod.Generation, old.Generation)
			}
			if pod.Labels["app"] != "web" || pod.Spec.Containers[0].Image != "nginx" || pod.Status.Phase != old.Status.Phase {
				t.Errorf("more than ephemeral containers has changed: %+v", pod)
			}
			err := validateEphemeralContainers(pod, old).ToAggregate()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	mirror := old.DeepCopy()
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	if err := validateEphemeralContainers(mirror, mirror).ToAggregate(); err == nil || !strings.Contains(err.Error(), "static pods do not support ephemeral containers") {
		t.Error(err)
	}
}
