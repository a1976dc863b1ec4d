package podsecurity

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/podsecurity"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/localcache"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	stock "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"
)

// sides are both plugins with one configuration over the same objects.
type sides struct {
	stock         *stock.Admission
	own           *podsecurity.Plugin
	namespaces    *localcache.Map[*corev1.Namespace]
	pods          []*corev1.Pod
	counted, want []string // by the metrics of each
}

// GetNamespace implements [stock.NamespaceGetter].
func (s *sides) GetNamespace(_ context.Context, name string) (*corev1.Namespace, error) {
	if n, ok := s.namespaces.Get(name); ok {
		return n, nil
	}
	return nil, errors.New("there is none")
}

// ListPods implements [stock.PodLister].
func (s *sides) ListPods(context.Context, string) ([]*corev1.Pod, error) {
	return slices.Clone(s.pods), nil
}

// Get implements [localcache.Index].
func (s *sides) Get(string) iter.Seq[*corev1.Pod] { return slices.Values(s.pods) }

// RecordEvaluation, RecordExemption and RecordError implement [metrics.Recorder].
func (s *sides) RecordEvaluation(d metrics.Decision, v api.LevelVersion, m metrics.Mode, _ api.Attributes) {
	s.want = append(s.want, fmt.Sprint(m, " ", v, " ", d == metrics.DecisionAllow))
}
func (s *sides) RecordExemption(api.Attributes) { s.want = append(s.want, "exempt") }
func (s *sides) RecordError(fatal bool, _ api.Attributes) {
	s.want = append(s.want, fmt.Sprint("failed ", fatal))
}

func newSides(t *testing.T, text string) *sides {
	t.Helper()
	s := &sides{namespaces: localcache.NewMap[*corev1.Namespace]()}
	config, err := load.LoadFromData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.stock = &stock.Admission{Configuration: config, Evaluator: evaluator, Metrics: s, NamespaceGetter: s, PodLister: s}
	if err := errors.Join(s.stock.CompleteConfiguration(), s.stock.ValidateConfiguration()); err != nil {
		t.Fatal(err)
	}
	var own podsecurity.Configuration
	if text != "" {
		if own, err = podsecurity.ParseConfig([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	s.own, err = podsecurity.New(podsecurity.Config{
		Configuration: own, Namespaces: s.namespaces, Pods: s,
		Lookup: func(ctx context.Context, name string) (*corev1.Namespace, error) { return s.GetNamespace(ctx, name) },
		Metrics: podsecurity.Metrics{
			Evaluated: func(_ *admission.Request, e podsecurity.Evaluation) {
				s.counted = append(s.counted, fmt.Sprint(e.Mode, " ", e.Standard, " ", e.Allowed))
			},
			Exempted: func(*admission.Request) { s.counted = append(s.counted, "exempt") },
			Failed:   func(_ *admission.Request, fatal bool) { s.counted = append(s.counted, fmt.Sprint("failed ", fatal)) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// outcome holds the answer to a request.
type outcome struct {
	status      metav1.Status
	warnings    []string
	annotations map[string]string
}

func (s *sides) ours(t *testing.T, r *admission.Request) outcome {
	o := outcome{annotations: map[string]string{}}
	r.Warn = func(m string) { o.warnings = append(o.warnings, m) }
	r.Annotate = func(k, v string) {
		if _, ok := o.annotations[k]; !ok {
			o.annotations[k] = v
		}
	}
	err := s.own.Validate(t.Context(), r)
	var forbidden *admission.ForbiddenError
	var status interface{ Status() metav1.Status }
	switch {
	case errors.As(err, &forbidden):
		o.status = metav1.Status{Code: 403, Message: forbidden.Error()}
	case errors.As(err, &status):
		o.status = metav1.Status{Code: status.Status().Code, Message: status.Status().Message}
	case err != nil:
		t.Fatal(err)
	}
	return o
}

func (s *sides) theirs(t *testing.T, r *admission.Request) outcome {
	namespace := r.Namespace
	if r.Resource.Resource == "namespaces" {
		namespace = r.Name
	}
	attributes := &api.AttributesRecord{
		Name: r.Name, Namespace: namespace, Kind: schema.GroupVersionKind(r.Kind), Resource: schema.GroupVersionResource(r.Resource),
		Subresource: r.Subresource, Operation: admissionv1.Operation(r.Operation), Object: r.Object.(runtime.Object), Username: r.User.Name,
	}
	if r.OldObject != nil {
		attributes.OldObject = r.OldObject.(runtime.Object)
	}
	response := s.stock.Validate(t.Context(), attributes)
	o := outcome{annotations: map[string]string{}, warnings: response.Warnings}
	if !response.Allowed {
		o.status = metav1.Status{Code: response.Result.Code, Message: response.Result.Message}
	}
	for k, v := range response.AuditAnnotations {
		o.annotations[api.AuditAnnotationPrefix+k] = v
	}
	return o
}

func (m maker) namespace(name string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, mode := range []string{"enforce", "audit", "warn"} {
		if m.rarely(2) {
			n.Labels["pod-security.kubernetes.io/"+mode] = m.one("privileged", "privileged", "privileged", "baseline", "baseline", "restricted", "Baseline", "")
		}
		if m.rarely(4) {
			n.Labels["pod-security.kubernetes.io/"+mode+"-version"] = m.one("latest", "v1.0", "v1.23", "v1.36", "v1.99", "1.2", "v1.01", "v2.0", "")
		}
	}
	return n
}

// request returns a random request in a random namespace, which it puts into the caches.
func (m maker) request(s *sides) *admission.Request {
	r := &admission.Request{
		Operation: admission.Create, Namespace: m.one("shop", "shop", "system"), Name: "p", User: &user.Info{Name: m.one("jane", "jane", "root")},
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: admission.GroupVersionKind{Version: "v1", Kind: "Pod"},
	}
	for _, name := range []string{"shop", "system"} {
		s.namespaces.Delete(name)
		if !m.rarely(10) {
			s.namespaces.Put(m.namespace(name))
		}
	}
	switch m.IntN(4) {
	case 0:
		object, group, resource := m.workload()
		r.Object, r.Resource.Group, r.Resource.Resource = object, group, resource
		r.Subresource = m.one("", "", "", "scale", "status")
	case 1:
		return m.namespaceRequest(s, r)
	default:
		pod := m.pod()
		r.Object, r.Subresource = pod, m.one("", "", "", "", "ephemeralcontainers", "resize", "status", "binding", "eviction", "other")
	}
	if m.rarely(3) {
		r.Operation = admission.Update
		m.updated(r)
	}
	return r
}

// updated gives r an old object, which often equals the new one.
func (m maker) updated(r *admission.Request) {
	r.OldObject = r.Object.(runtime.Object).DeepCopyObject()
	old, ok := r.OldObject.(*corev1.Pod)
	if !ok || m.rarely(2) {
		return
	}
	switch m.IntN(4) {
	case 0:
		old.Labels = map[string]string{"a": "b"}
	case 1:
		old.Spec.Containers[0].Image = "z"
	case 2:
		old.Spec.EphemeralContainers = nil
	case 3:
		r.OldObject = m.pod()
	}
}

func (m maker) namespaceRequest(s *sides, r *admission.Request) *admission.Request {
	n := m.namespace(m.one("shop", "shop", "system"))
	r.Namespace, r.Name, r.Object = "", n.Name, n
	r.Resource.Resource, r.Kind.Kind = "namespaces", "Namespace"
	r.Subresource = m.one("", "", "", "", "status", "finalize")
	if m.rarely(2) {
		return r
	}
	r.Operation, r.OldObject = admission.Update, m.namespace(n.Name)
	s.pods = nil
	yes := true
	for i := range m.IntN(6) {
		p := m.pod()
		p.Name = fmt.Sprint("p", i)
		if m.rarely(2) {
			p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(m.one("a", "b")), Controller: &yes}}
		}
		s.pods = append(s.pods, p)
	}
	return r
}

// TestRandomRequests: requests have the same outcome, warnings, annotations and metrics.
func TestRandomRequests(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	klog.SetLogger(logr.Discard()) // of namespaces that the library does not find
	defer klog.ClearLogger()
	m := maker{rand.New(rand.NewPCG(seed, 0))}
	const header = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n"
	kinds := map[string]int{}
	for _, text := range []string{
		"", header,
		header + "defaults: {enforce: baseline, enforce-version: v1.20, warn: restricted}\n",
		header + "defaults: {audit: restricted, audit-version: latest}\nexemptions: {usernames: [root], namespaces: [system], runtimeClasses: [vm]}\n",
	} {
		s := newSides(t, text)
		for i := range 5000 {
			r := m.request(s)
			s.counted, s.want = nil, nil
			got, want := s.ours(t, r), s.theirs(t, r)
			if !reflect.DeepEqual(got.status, want.status) || !slices.Equal(got.warnings, want.warnings) || !maps.Equal(got.annotations, want.annotations) {
				t.Fatalf("%d: %v %v/%s in %s, %+v:\n%+v\nwant\n%+v", i, r.Operation, r.Resource, r.Subresource, r.Namespace, r.Object, got, want)
			}
			if !slices.Equal(s.counted, s.want) {
				t.Fatalf("%d: counted %v, want %v", i, s.counted, s.want)
			}
			kinds[fmt.Sprint(got.status.Code)]++
			kinds["warned"] += len(got.warnings)
			for k := range got.annotations {
				kinds[strings.TrimPrefix(k, "pod-security.kubernetes.io/")]++
			}
		}
	}
	t.Log(kinds)
	for _, k := range []string{"0", "403", "422", "500", "warned", "enforce-policy", "audit-violations", "exempt", "error"} {
		if kinds[k] < 50 {
			t.Errorf("%s: %d times only", k, kinds[k])
		}
	}
}
