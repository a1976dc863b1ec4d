package kube_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// subresource returns the named subresource, which is a T.
func subresource[T apiserver.Subresource](t *testing.T, plural, name string) T {
	t.Helper()
	for _, s := range resource(plural).Subresources {
		if s.SubresourceName() == name {
			return s.(T)
		}
	}
	t.Fatalf("no subresource %s/%s", plural, name)
	panic("unreachable")
}

// TestResources holds every resource to what a server needs of it.
func TestResources(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range kube.Resources() {
		key := r.Group + "/" + r.Plural
		if seen[key] {
			t.Errorf("%s: twice", key)
		}
		seen[key] = true
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: r.Kind})
		if r.Version == "" || r.Kind == "" || r.Plural != plural.Resource {
			t.Errorf("%s: version %q, kind %q", key, r.Version, r.Kind)
		}
		if r.New() == r.New() || r.NewList() == nil {
			t.Errorf("%s: New does not make new objects", key)
		}
		for _, c := range r.Columns {
			if c.Name == "" || c.Type == "" || c.Description == "" {
				t.Errorf("%s: column %+v is not described", key, c)
			}
			c.Value(r.New())
		}
		for path, value := range r.Fields {
			if path == "" {
				t.Errorf("%s: field without a path", key)
			}
			value(r.New())
		}
	}
}

func TestFields(t *testing.T) {
	pod := kindtest.Decode(t, resource("pods").New, `
spec: {nodeName: n1, restartPolicy: Never, schedulerName: s, serviceAccountName: a, hostNetwork: true}
status: {phase: Running, podIP: 10.0.0.1, nominatedNodeName: n2}`)
	want := map[string]string{
		"spec.nodeName": "n1", "spec.restartPolicy": "Never", "spec.schedulerName": "s", "spec.serviceAccountName": "a",
		"spec.hostNetwork": "true", "status.phase": "Running", "status.podIP": "10.0.0.1", "status.podIPs": "", "status.nominatedNodeName": "n2",
	}
	expectFields(t, "pods", pod, want)
	expectFields(t, "events", kindtest.Decode(t, resource("events").New, `
involvedObject: {kind: Pod, namespace: team, name: web, uid: u, apiVersion: v1, resourceVersion: "5", fieldPath: f}
reason: r
reportingComponent: c
type: Normal`), map[string]string{
		"involvedObject.kind": "Pod", "involvedObject.namespace": "team", "involvedObject.name": "web", "involvedObject.uid": "u",
		"involvedObject.apiVersion": "v1", "involvedObject.resourceVersion": "5", "involvedObject.fieldPath": "f",
		"reason": "r", "reportingComponent": "c", "source": "c", "type": "Normal",
	})
	expectFields(t, "nodes", &corev1.Node{}, map[string]string{"spec.unschedulable": "false"})
	expectFields(t, "services", &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "None", Type: "NodePort"}},
		map[string]string{"spec.clusterIP": "None", "spec.type": "NodePort"})
	expectFields(t, "ipaddresses", nil, nil) // as in Kubernetes, which takes metadata.namespace therefore
	expectFields(t, "clustertrustbundles", kindtest.Decode(t, resource("clustertrustbundles").New, `{spec: {signerName: example.com/ca}}`),
		map[string]string{"spec.signerName": "example.com/ca"})
	expectFields(t, "replicationcontrollers", &corev1.ReplicationController{Status: corev1.ReplicationControllerStatus{Replicas: 3}},
		map[string]string{"status.replicas": "3"})
	expectFields(t, "secrets", &corev1.Secret{Type: "x"}, map[string]string{"type": "x"})
	expectFields(t, "jobs", &batchv1.Job{Status: batchv1.JobStatus{Succeeded: 2}}, map[string]string{"status.successful": "2"})
	expectFields(t, "replicasets", &appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Replicas: 3}}, map[string]string{"status.replicas": "3"})
}

func expectFields(t *testing.T, plural string, obj runtime.Object, want map[string]string) {
	t.Helper()
	fields := resource(plural).Fields
	if len(fields) != len(want) {
		t.Errorf("%s: have %d fields, want %d", plural, len(fields), len(want))
	}
	for path, value := range fields {
		if have := value(obj); have != want[path] {
			t.Errorf("%s: %s is %q, want %q", plural, path, have, want[path])
		}
	}
}

func TestGrace(t *testing.T) {
	grace := resource("pods").Strategy.Grace
	for _, c := range []struct {
		name string
		pod  string
		asks *int64
		want int64
	}{
		{"its own", `{spec: {nodeName: x, terminationGracePeriodSeconds: 7}}`, nil, 7},
		{"asked for", `{spec: {nodeName: x, terminationGracePeriodSeconds: 7}}`, new(int64(3)), 3},
		{"at once", `{spec: {nodeName: x, terminationGracePeriodSeconds: 7}}`, new(int64(0)), 0},
		{"negative", `{spec: {nodeName: x, terminationGracePeriodSeconds: -7}}`, nil, 1},
		{"not scheduled", `{spec: {terminationGracePeriodSeconds: 7}}`, nil, 0},
		{"failed", `{spec: {nodeName: x, terminationGracePeriodSeconds: 7}, status: {phase: Failed}}`, nil, 0},
		{"succeeded", `{spec: {nodeName: x, terminationGracePeriodSeconds: 7}, status: {phase: Succeeded}}`, nil, 0},
	} {
		pod := kindtest.Decode(t, resource("pods").New, c.pod)
		if have := grace(pod, &metav1.DeleteOptions{GracePeriodSeconds: c.asks}); have != c.want {
			t.Errorf("%s: have %d, want %d", c.name, have, c.want)
		}
	}
}

func TestBinding(t *testing.T) {
	for _, c := range []struct{ name, pod, binding, want string }{
		{"free", `{metadata: {name: web, uid: u, resourceVersion: "5"}}`, `{metadata: {uid: u, resourceVersion: "5"}, target: {kind: Node, name: n1}}`, ""},
		{"no target", `{metadata: {name: web}}`, `{}`, `Binding "web" is invalid: target.name: Required value`},
		{"not a node", `{metadata: {name: web}}`, `{target: {kind: Pod, name: x}}`, `Binding "web" is invalid: target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"`},
		{"taken", `{metadata: {name: web}, spec: {nodeName: n2}}`, `{target: {name: n1}}`,
			`Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n2"`},
		{"going", `{metadata: {name: web, deletionTimestamp: "2026-01-01T00:00:00Z"}}`, `{target: {name: n1}}`,
			`Operation cannot be fulfilled on pods/binding "web": pod web is being deleted, cannot be assigned to a host`},
		{"gated", `{metadata: {name: web}, spec: {schedulingGates: [{name: a}]}}`, `{target: {name: n1}}`,
			`Operation cannot be fulfilled on pods/binding "web": pod web has non-empty .spec.schedulingGates`},
		{"another pod of that name", `{metadata: {name: web, uid: u}}`, `{metadata: {uid: w}, target: {name: n1}}`,
			`Operation cannot be fulfilled on pods "web": Precondition failed: UID in precondition: w, UID in object meta: u`},
		{"another version", `{metadata: {name: web, resourceVersion: "6"}}`, `{metadata: {resourceVersion: "5"}, target: {name: n1}}`,
			`Operation cannot be fulfilled on pods "web": Precondition failed: ResourceVersion in precondition: 5, ResourceVersion in object meta: 6`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := subresource[apiserver.View](t, "pods", "binding")
			pod := kindtest.Decode(t, resource("pods").New, c.pod)
			before := pod.DeepCopyObject()
			err := b.Into(pod, kindtest.Decode(t, b.New, c.binding))
			if err == nil && c.want == "" {
				return
			}
			if err == nil || err.Error() != c.want {
				t.Fatalf("have %v\nwant %s", err, c.want)
			}
			if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
				t.Errorf("%v is not an API status", err)
			}
			kindtest.ExpectYAML(t, pod, before)
		})
	}
}

func TestBindingResult(t *testing.T) {
	b := subresource[apiserver.View](t, "pods", "binding")
	since := metav1.Date(2020, 1, 1, 0, 0, 0, 0, metav1.Now().Location())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 4, Annotations: map[string]string{"a": "1", "b": "1"}},
		Status: corev1.PodStatus{NominatedNodeName: "n2", Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", LastTransitionTime: since},
		}},
	}
	err := b.Into(pod, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"b": "2"}, Labels: map[string]string{"zone": "z"}},
		Target:     corev1.ObjectReference{Name: "n1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.NodeName != "n1" || pod.Status.NominatedNodeName != "" || pod.Generation != 4 {
		t.Errorf("node %q, nominated %q, generation %d", pod.Spec.NodeName, pod.Status.NominatedNodeName, pod.Generation)
	}
	if pod.Annotations["a"] != "1" || pod.Annotations["b"] != "2" || pod.Labels["zone"] != "z" {
		t.Errorf("annotations %v, labels %v", pod.Annotations, pod.Labels)
	}
	c := pod.Status.Conditions
	if len(c) != 1 || c[0].Status != corev1.ConditionTrue || c[0].Reason != "" || !c[0].LastTransitionTime.After(since.Time) {
		t.Errorf("conditions %+v", c)
	}
}

func TestScale(t *testing.T) {
	for plural, selector := range map[string]string{
		"deployments": "{matchLabels: {app: web}}", "replicasets": "{matchLabels: {app: web}}", "statefulsets": "{matchLabels: {app: web}}",
		"replicationcontrollers": "{app: web}",
	} {
		t.Run(plural, func(t *testing.T) {
			r, s := resource(plural), subresource[apiserver.View](t, plural, "scale")
			if s.Group != "autoscaling" || s.Version != "v1" || s.Kind != "Scale" {
				t.Errorf("the scale of %s is a %s/%s %s, want autoscaling/v1 Scale", plural, s.Group, s.Version, s.Kind)
			}
			obj := kindtest.Decode(t, r.New, `
metadata: {name: web, namespace: team, uid: u, resourceVersion: "5", generation: 1}
spec: {replicas: 3, selector: `+selector+`, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}}
status: {replicas: 2}`)
			r.Strategy.Default(obj)
			old := obj.DeepCopyObject()
			view, err := s.From(obj)
			if err != nil {
				t.Fatal(err)
			}
			scale := view.(*autoscalingv1.Scale)
			if scale.Name != "web" || scale.UID != "u" || scale.ResourceVersion != "5" || scale.Spec.Replicas != 3 ||
				scale.Status.Replicas != 2 || scale.Status.Selector != "app=web" {
				t.Errorf("scale %+v", scale)
			}
			scale.Spec.Replicas = 0
			if err := s.Into(obj, scale); err != nil {
				t.Fatal(err)
			}
			scale.Spec.Replicas = 9 // the caller's, no longer the object's
			s.Strategy.PrepareForUpdate(t.Context(), obj, old)
			if errs := s.Strategy.ValidateUpdate(t.Context(), obj, old); len(errs) > 0 {
				t.Error(errs)
			}
			again, err := s.From(obj)
			if err != nil {
				t.Fatal(err)
			}
			if n := again.(*autoscalingv1.Scale).Spec.Replicas; n != 0 {
				t.Errorf("%d replicas", n)
			}
			if g := obj.(metav1.Object).GetGeneration(); g != 2 {
				t.Errorf("generation %d", g)
			}
		})
	}
}

func TestScaleRefused(t *testing.T) {
	s := subresource[apiserver.View](t, "deployments", "scale")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u", ResourceVersion: "5"}}
	for _, c := range []struct {
		scale autoscalingv1.Scale
		check func(error) bool
	}{
		{autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: -1}}, apierrors.IsInvalid},
		{autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: types.UID("x")}}, apierrors.IsConflict},
		{autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Annotations: map[string]string{"a b": ""}}}, apierrors.IsInvalid},
		{autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Finalizers: []string{"x"}}}, apierrors.IsInvalid},
	} {
		if err := s.Into(d, &c.scale); !c.check(err) || d.Spec.Replicas != nil {
			t.Errorf("Into(%v) = %v and %v replicas, want a refusal that changes nothing", c.scale, err, d.Spec.Replicas)
		}
	}
}
