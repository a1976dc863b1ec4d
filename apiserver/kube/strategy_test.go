package kube_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStatusIsKept changes everything through the object itself and through its
// status, and expects that each changes only its own half, and that only a
// change of the spec raises the generation.
func TestStatusIsKept(t *testing.T) {
	for plural, doc := range map[string]string{
		"pods":        `{spec: {hostname: a}, status: {qosClass: BestEffort, message: a}}`,
		"deployments": `{spec: {minReadySeconds: 1}, status: {replicas: 1}}`,
		"replicasets": `{spec: {minReadySeconds: 1}, status: {replicas: 1}}`,
		"jobs":        `{spec: {backoffLimit: 1}, status: {active: 1}}`,
	} {
		t.Run(plural, func(t *testing.T) {
			r := resource(plural)
			old := decode(t, r.New, `{metadata: {generation: 3}}`)
			r.Strategy.Default(old)
			changed := decode(t, r.New, doc)
			r.Strategy.Default(changed)

			main := changed.DeepCopyObject()
			r.Strategy.PrepareForUpdate(t.Context(), main, old)
			want := changed.DeepCopyObject()
			want.(metav1.Object).SetGeneration(4)
			setStatus(t, want, old)
			expectYAML(t, main, want)

			same := old.DeepCopyObject()
			setStatus(t, same, changed)
			r.Strategy.PrepareForUpdate(t.Context(), same, old)
			expectYAML(t, same, old)

			part := changed.DeepCopyObject()
			part.(metav1.Object).SetGeneration(3) // as the server does
			subresource(t, plural, "status").Strategy.PrepareForUpdate(t.Context(), part, old)
			want = old.DeepCopyObject()
			setStatus(t, want, changed)
			want.(metav1.Object).SetLabels(part.(metav1.Object).GetLabels())
			expectYAML(t, part, want)

			create := changed.DeepCopyObject()
			r.Strategy.PrepareForCreate(t.Context(), create)
			if g := create.(metav1.Object).GetGeneration(); g != 1 {
				t.Errorf("generation %d at birth", g)
			}
		})
	}
}

func TestPodAtBirth(t *testing.T) {
	pods := resource("pods")
	for _, c := range []struct{ name, doc, qos string }{
		{"nothing", `{spec: {containers: [{name: a}]}}`, "BestEffort"},
		{"a request", `{spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}}`, "Burstable"},
		{"both limits", `{spec: {containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`, "Guaranteed"},
		{"less than the limit", `{spec: {containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 500m}}}]}}`, "Burstable"},
		{"one container without", `{spec: {containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}, {name: b}]}}`, "Burstable"},
		{"init container without", `{spec: {initContainers: [{name: b}], containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`, "Burstable"},
		{"zero", `{spec: {containers: [{name: a, resources: {requests: {cpu: 0}}}]}}`, "BestEffort"},
		{"the pod as a whole", `{spec: {resources: {limits: {cpu: 1, memory: 1Gi}}, containers: [{name: a}]}}`, "Guaranteed"},
		{"a lie", `{spec: {containers: [{name: a}]}, status: {qosClass: Guaranteed, phase: Running}}`, "BestEffort"},
	} {
		pod := decode(t, pods.New, c.doc).(*corev1.Pod)
		pods.Strategy.Default(pod)
		pods.Strategy.PrepareForCreate(t.Context(), pod)
		if pod.Status.QOSClass != corev1.PodQOSClass(c.qos) || pod.Status.Phase != corev1.PodPending {
			t.Errorf("%s: %s %s", c.name, pod.Status.Phase, pod.Status.QOSClass)
		}
	}
}

func TestGatedPodAtBirth(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "a"}}}}
	resource("pods").Strategy.PrepareForCreate(t.Context(), pod)
	c := pod.Status.Conditions
	if len(c) != 1 || c[0].Type != corev1.PodScheduled || c[0].Status != corev1.ConditionFalse || c[0].Reason != "SchedulingGated" {
		t.Errorf("conditions %+v", c)
	}
}

func TestJobSelector(t *testing.T) {
	jobs := resource("jobs").Strategy
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "pi", UID: "u"}}
	job.Spec.Template.Labels = map[string]string{"app": "pi"}
	jobs.Default(job)
	jobs.PrepareForCreate(t.Context(), job)
	for key, want := range map[string]string{
		"app": "pi", "job-name": "pi", "batch.kubernetes.io/job-name": "pi", "controller-uid": "u", "batch.kubernetes.io/controller-uid": "u",
	} {
		if have := job.Spec.Template.Labels[key]; have != want {
			t.Errorf("label %s is %q, want %q", key, have, want)
		}
	}
	if s := metav1.FormatLabelSelector(job.Spec.Selector); s != "batch.kubernetes.io/controller-uid=u" {
		t.Errorf("selector %s", s)
	}
	if len(job.Labels) != 1 {
		t.Errorf("labels %v", job.Labels)
	}
	own := &batchv1.Job{Spec: batchv1.JobSpec{ManualSelector: new(true)}}
	jobs.PrepareForCreate(t.Context(), own)
	if own.Spec.Selector != nil || own.Spec.Template.Labels != nil {
		t.Errorf("manual selector: %+v", own.Spec)
	}
}

func TestNamespaceLife(t *testing.T) {
	r := resource("namespaces")
	ns := decode(t, r.New, `{metadata: {name: team}, spec: {finalizers: [a/b]}, status: {phase: Terminating}}`).(*corev1.Namespace)
	r.Strategy.PrepareForCreate(t.Context(), ns)
	if ns.Status.Phase != corev1.NamespaceActive || len(ns.Spec.Finalizers) != 2 || !r.Strategy.Finalizing(ns) {
		t.Errorf("born as %+v", ns)
	}
	r.Strategy.PrepareForDelete(ns)
	if ns.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("phase %s", ns.Status.Phase)
	}
	emptied := ns.DeepCopy()
	emptied.Spec.Finalizers = nil
	main := emptied.DeepCopy()
	r.Strategy.PrepareForUpdate(t.Context(), main, ns)
	expectYAML(t, main, ns)
	subresource(t, "namespaces", "finalize").Strategy.PrepareForUpdate(t.Context(), emptied, ns)
	if r.Strategy.Finalizing(emptied) {
		t.Errorf("finalizers %v", emptied.Spec.Finalizers)
	}
	if msgs := r.Strategy.ValidateName("a.b", false); len(msgs) == 0 {
		t.Error("a namespace with a dot")
	}
}
