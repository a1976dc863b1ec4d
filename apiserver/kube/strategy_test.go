package kube_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

		"flowschemas":                 `{spec: {matchingPrecedence: 7}, status: {conditions: [{type: a}]}}`,
		"prioritylevelconfigurations": `{spec: {type: Exempt}, status: {conditions: [{type: a}]}}`,

		"poddisruptionbudgets":   `{spec: {minAvailable: 1}, status: {disruptionsAllowed: 1}}`,
		"ingresses":              `{spec: {ingressClassName: c}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}`,
		"cronjobs":               `{spec: {startingDeadlineSeconds: 1}, status: {active: [{name: a}]}}`,
		"statefulsets":           `{spec: {minReadySeconds: 1}, status: {readyReplicas: 1}}`,
		"replicationcontrollers": `{spec: {minReadySeconds: 1}, status: {replicas: 1}}`,
	} {
		t.Run(plural, func(t *testing.T) {
			r := resource(plural)
			old := kindtest.Decode(t, r.New, `{metadata: {generation: 3}}`)
			complete(r, old)
			changed := kindtest.Decode(t, r.New, doc)
			complete(r, changed)

			main := changed.DeepCopyObject()
			r.Strategy.PrepareForUpdate(t.Context(), main, old)
			want := changed.DeepCopyObject()
			want.(metav1.Object).SetGeneration(4)
			setStatus(t, want, old)
			kindtest.ExpectYAML(t, main, want)

			same := old.DeepCopyObject()
			setStatus(t, same, changed)
			r.Strategy.PrepareForUpdate(t.Context(), same, old)
			kindtest.ExpectYAML(t, same, old)

			part := changed.DeepCopyObject()
			part.(metav1.Object).SetGeneration(3) // as the server does
			subresource[apiserver.Status](t, plural, "status").Strategy.PrepareForUpdate(t.Context(), part, old)
			want = old.DeepCopyObject()
			setStatus(t, want, changed)
			want.(metav1.Object).SetLabels(part.(metav1.Object).GetLabels())
			kindtest.ExpectYAML(t, part, want)

			create := changed.DeepCopyObject()
			r.Strategy.PrepareForCreate(t.Context(), create)
			if g := create.(metav1.Object).GetGeneration(); g != 1 {
				t.Errorf("generation %d at birth", g)
			}
		})
	}
}

func complete(r apiserver.Resource, obj runtime.Object) {
	if r.Strategy.Default != nil {
		r.Strategy.Default(obj)
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
		pod := kindtest.Decode(t, pods.New, c.doc).(*corev1.Pod)
		pods.Strategy.Default(pod)
		pods.Strategy.PrepareForCreate(t.Context(), pod)
		if pod.Status.QOSClass != corev1.PodQOSClass(c.qos) || pod.Status.Phase != corev1.PodPending {
			t.Errorf("%s: the pod has phase %s and class %s, want Pending and %s", c.name, pod.Status.Phase, pod.Status.QOSClass, c.qos)
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
	// A job without labels has its template's, with all that they are given.
	if !maps.Equal(job.Labels, job.Spec.Template.Labels) {
		t.Errorf("labels %v, of the template %v", job.Labels, job.Spec.Template.Labels)
	}
	labelled := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "pi", UID: "u", Labels: map[string]string{"app": "pi"}}}
	labelled.Spec.Template.Labels = map[string]string{"app": "pi"}
	jobs.Default(labelled)
	jobs.PrepareForCreate(t.Context(), labelled)
	if len(labelled.Labels) != 1 {
		t.Errorf("labels of its own %v", labelled.Labels)
	}
	own := &batchv1.Job{Spec: batchv1.JobSpec{ManualSelector: new(true)}}
	jobs.PrepareForCreate(t.Context(), own)
	if own.Spec.Selector != nil || own.Spec.Template.Labels != nil {
		t.Errorf("manual selector: %+v", own.Spec)
	}
}

func TestNamespaceLife(t *testing.T) {
	r := resource("namespaces")
	ns := kindtest.Decode(t, r.New, `{metadata: {name: team}, spec: {finalizers: [a/b]}, status: {phase: Terminating}}`).(*corev1.Namespace)
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
	kindtest.ExpectYAML(t, main, ns)
	subresource[apiserver.Status](t, "namespaces", "finalize").Strategy.PrepareForUpdate(t.Context(), emptied, ns)
	if r.Strategy.Finalizing(emptied) {
		t.Errorf("finalizers %v", emptied.Spec.Finalizers)
	}
	if msgs := r.Strategy.ValidateName("a.b", false); len(msgs) == 0 {
		t.Error("a namespace with a dot")
	}
}

// TestStatusApart is TestStatusIsKept for resources without a generation.
func TestStatusApart(t *testing.T) {
	for plural, doc := range map[string]string{
		"volumeattachments":      `{spec: {attacher: a}, status: {attached: true}}`,
		"servicecidrs":           `{spec: {cidrs: [10.0.0.0/8]}, status: {conditions: [{type: a}]}}`,
		"persistentvolumeclaims": `{spec: {volumeName: v}, status: {phase: Bound}}`,
		"persistentvolumes":      `{spec: {storageClassName: c}, status: {reason: r}}`,
		"resourcequotas":         `{spec: {hard: {cpu: 1}}, status: {hard: {cpu: 2}}}`,
		"services":               `{spec: {externalIPs: [1.2.3.4]}, status: {conditions: [{type: a}]}}`,
	} {
		t.Run(plural, func(t *testing.T) {
			r := resource(plural)
			old := kindtest.Decode(t, r.New, `{}`)
			complete(r, old)
			changed := kindtest.Decode(t, r.New, doc)
			complete(r, changed)
			for _, c := range []struct {
				s      apiserver.Strategy
				spec   runtime.Object
				status runtime.Object
			}{{r.Strategy, changed, old}, {subresource[apiserver.Status](t, plural, "status").Strategy, old, changed}} {
				have, want := changed.DeepCopyObject(), c.spec.DeepCopyObject()
				c.s.PrepareForUpdate(t.Context(), have, old)
				setStatus(t, want, c.status)
				kindtest.ExpectYAML(t, have, want)
			}
			created := changed.DeepCopyObject()
			r.Strategy.PrepareForCreate(t.Context(), created)
			complete(r, created)
			if _, ok := created.(*corev1.PersistentVolume); !ok { // it is born with a time
				want := changed.DeepCopyObject()
				setStatus(t, want, old)
				kindtest.ExpectYAML(t, created, want)
			}
		})
	}
}

// TestStatusesThatKeepMetadata: a write of these statuses leaves the labels of the object as they are, as in kube-apiserver; one
// of another status may change them.
func TestStatusesThatKeepMetadata(t *testing.T) {
	keep := []string{"apiservices", "deployments", "flowschemas", "prioritylevelconfigurations", "servicecidrs", "validatingadmissionpolicies", "volumeattachments"}
	for _, r := range kube.Resources() {
		for _, sub := range r.Subresources {
			status, ok := sub.(apiserver.Status)
			if !ok || sub.SubresourceName() != "status" {
				continue
			}
			old, now := r.New(), r.New()
			now.(metav1.Object).SetLabels(map[string]string{"a": "b"})
			status.Strategy.PrepareForUpdate(t.Context(), now, old)
			if kept := len(now.(metav1.Object).GetLabels()) == 0; kept != slices.Contains(keep, r.Plural) {
				t.Errorf("%s/status keeps the labels: %v, want %v", r.Plural, kept, !kept)
			}
		}
	}
}

func TestPersistentVolumePhase(t *testing.T) {
	r := resource("persistentvolumes")
	v := &corev1.PersistentVolume{}
	r.Strategy.PrepareForCreate(t.Context(), v)
	if v.Status.Phase != corev1.VolumePending || v.Status.LastPhaseTransitionTime == nil {
		t.Errorf("status %+v", v.Status)
	}
	v.Status.LastPhaseTransitionTime = new(metav1.Date(2020, 1, 1, 0, 0, 0, 0, metav1.Now().Location()))
	same, bound := v.DeepCopy(), v.DeepCopy()
	same.Status.LastPhaseTransitionTime = nil
	bound.Status.Phase = corev1.VolumeBound
	s := subresource[apiserver.Status](t, "persistentvolumes", "status").Strategy
	s.PrepareForUpdate(t.Context(), same, v)
	s.PrepareForUpdate(t.Context(), bound, v)
	if !same.Status.LastPhaseTransitionTime.Equal(v.Status.LastPhaseTransitionTime) || !v.Status.LastPhaseTransitionTime.Before(bound.Status.LastPhaseTransitionTime) {
		t.Errorf("same %v, bound %v", same.Status, bound.Status)
	}
}

func TestClaimDataSources(t *testing.T) {
	claims := resource("persistentvolumeclaims").Strategy
	for _, c := range []struct{ name, spec, want string }{
		{"a claim", `{dataSource: {kind: PersistentVolumeClaim, name: a}}`,
			`{dataSource: {kind: PersistentVolumeClaim, name: a}, dataSourceRef: {kind: PersistentVolumeClaim, name: a}}`},
		{"a reference", `{dataSourceRef: {apiGroup: x, kind: Y, name: a}}`,
			`{dataSource: {apiGroup: x, kind: Y, name: a}, dataSourceRef: {apiGroup: x, kind: Y, name: a}}`},
		{"ignored", `{dataSource: {apiGroup: x, kind: Y, name: a}}`, `{}`},
		{"elsewhere", `{dataSourceRef: {kind: PersistentVolumeClaim, name: a, namespace: b}}`, `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim := kindtest.Decode(t, resource("persistentvolumeclaims").New, `{spec: `+c.spec+`}`)
			claims.PrepareForCreate(t.Context(), claim)
			kindtest.ExpectYAML(t, claim, kindtest.Decode(t, resource("persistentvolumeclaims").New, `{spec: `+c.want+`, status: {phase: Pending}}`))
		})
	}
}

func TestDaemonSetGeneration(t *testing.T) {
	r := resource("daemonsets")
	const annotation = "deprecated.daemonset.template.generation"
	ds := kindtest.Decode(t, r.New, `{spec: {minReadySeconds: 1}, status: {numberReady: 1}}`).(*appsv1.DaemonSet)
	r.Strategy.PrepareForCreate(t.Context(), ds)
	if ds.Generation != 1 || ds.Annotations[annotation] != "1" || ds.Status.NumberReady != 0 {
		t.Errorf("born as %+v", ds)
	}
	for _, c := range []struct {
		name, template string
		change         func(*appsv1.DaemonSet)
		generation     int64
	}{
		{"nothing", "1", func(ds *appsv1.DaemonSet) { ds.Annotations = nil; ds.Status.NumberReady = 5 }, 1},
		{"spec", "1", func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = 2 }, 2},
		{"template", "2", func(ds *appsv1.DaemonSet) { ds.Spec.Template.Labels = map[string]string{"a": "b"} }, 2},
	} {
		now := ds.DeepCopy()
		c.change(now)
		r.Strategy.PrepareForUpdate(t.Context(), now, ds)
		if now.Generation != c.generation || now.Annotations[annotation] != c.template || now.Status.NumberReady != 0 {
			t.Errorf("%s: generation %d, of the template %s", c.name, now.Generation, now.Annotations[annotation])
		}
	}
	part := ds.DeepCopy()
	part.Spec.MinReadySeconds, part.Status.NumberReady = 2, 5
	subresource[apiserver.Status](t, "daemonsets", "status").Strategy.PrepareForUpdate(t.Context(), part, ds)
	if part.Spec.MinReadySeconds != 1 || part.Status.NumberReady != 5 {
		t.Errorf("status changed to %+v", part)
	}
}

// TestGeneration changes specs that have no status beside them.
func TestGeneration(t *testing.T) {
	for plural, doc := range map[string]string{
		"endpointslices":  `{addressType: IPv4, endpoints: [{addresses: [10.0.0.1]}]}`,
		"ingressclasses":  `{spec: {controller: a/b}}`,
		"networkpolicies": `{spec: {egress: [{}]}}`,
		"podtemplates":    `{template: {spec: {hostname: a}}}`,
	} {
		r := resource(plural)
		born := kindtest.Decode(t, r.New, doc)
		r.Strategy.PrepareForCreate(t.Context(), born)
		if g := born.(metav1.Object).GetGeneration(); g != 1 {
			t.Errorf("%s: generation %d at birth", plural, g)
		}
		old := kindtest.Decode(t, r.New, `{metadata: {generation: 3}}`)
		same, changed := old.DeepCopyObject(), kindtest.Decode(t, r.New, doc)
		same.(metav1.Object).SetAnnotations(map[string]string{"a": "b"})
		for _, obj := range []runtime.Object{old, same, changed} {
			complete(r, obj)
		}
		r.Strategy.PrepareForUpdate(t.Context(), same, old)
		r.Strategy.PrepareForUpdate(t.Context(), changed, old)
		if a, b := same.(metav1.Object).GetGeneration(), changed.(metav1.Object).GetGeneration(); a != 3 || b != 4 {
			t.Errorf("%s: generation %d without a change and %d after one", plural, a, b)
		}
	}
}

func TestEndpointSliceTopology(t *testing.T) {
	r := resource("endpointslices")
	old := kindtest.Decode(t, r.New, `{endpoints: [{addresses: [a], deprecatedTopology: {kubernetes.io/hostname: n1}}]}`)
	now := kindtest.Decode(t, r.New, `{endpoints: [{addresses: [b], deprecatedTopology: {kubernetes.io/hostname: n1}}, {addresses: [c], deprecatedTopology: {kubernetes.io/hostname: n2}}]}`)
	r.Strategy.PrepareForUpdate(t.Context(), now, old)
	kindtest.ExpectYAML(t, now, kindtest.Decode(t, r.New, `{metadata: {generation: 1}, endpoints: [{addresses: [b], nodeName: n1}, {addresses: [c]}]}`))
}
