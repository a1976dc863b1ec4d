package warn

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestFor: a template is warned of when it is new and when the generation changes, and a pod when it is new.
func TestFor(t *testing.T) {
	spec := corev1.PodSpec{NodeSelector: map[string]string{"beta.kubernetes.io/os": "linux"}}
	const text = `nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`
	deployment := func(generation int64) *appsv1.Deployment {
		d := &appsv1.Deployment{}
		d.Name, d.Generation, d.Spec.Template.Spec = "web", generation, spec
		return d
	}
	ofDeployments, ofPods := For("deployments.apps"), For("pods.")
	pod := &corev1.Pod{Spec: spec}
	pod.Name = "web"
	for name, test := range map[string]struct{ got, want []string }{
		"new deployment":     {ofDeployments(deployment(1), nil), []string{"spec.template.spec." + text}},
		"changed deployment": {ofDeployments(deployment(2), deployment(1)), []string{"spec.template.spec." + text}},
		"same generation":    {ofDeployments(deployment(1), deployment(1)), nil},
		"new pod":            {ofPods(pod, nil), []string{"spec." + text}},
		"changed pod":        {ofPods(pod, pod), nil},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: warnings are %q, want %q", name, test.got, test.want)
		}
	}
	if f := For("configmaps."); f != nil {
		t.Error("For(configmaps.) is a function, want nil")
	}
}

// TestManyPorts: ports that are all alike make a bounded number of warnings.
func TestManyPorts(t *testing.T) {
	c := corev1.Container{Name: "c"}
	for range 5000 {
		c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 80})
	}
	got := ofPod(nil, &corev1.PodSpec{Containers: []corev1.Container{c}}, nil)
	if len(got) != maxWarnings {
		t.Errorf("5000 equal ports make %d warnings, want %d", len(got), maxWarnings)
	}
	if want := "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"; got[0] != want {
		t.Errorf("the first warning is %s, want %s", got[0], want)
	}
}
