package podsecurity_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/podsecurity"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/localcache"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// cluster has what a plugin reads.
type cluster struct {
	namespaces *localcache.Map[*corev1.Namespace]
	stored     map[string]*corev1.Namespace // only in the store
	pods       podsOf
	counted    []string // what metrics received
}

// podsOf holds pods by namespace.
type podsOf map[string][]*corev1.Pod

func (p podsOf) Get(namespace string) iter.Seq[*corev1.Pod] {
	return slices.Values(p[namespace])
}

func newCluster(namespaces ...*corev1.Namespace) *cluster {
	c := &cluster{namespaces: localcache.NewMap[*corev1.Namespace](), stored: map[string]*corev1.Namespace{}, pods: podsOf{}}
	for _, n := range namespaces {
		c.namespaces.Put(n)
	}
	return c
}

func (c *cluster) plugin(t testing.TB, configuration podsecurity.Configuration) *podsecurity.Plugin {
	t.Helper()
	p, err := podsecurity.New(podsecurity.Config{
		Configuration: configuration, Namespaces: c.namespaces, Pods: c.pods,
		Lookup: func(_ context.Context, name string) (*corev1.Namespace, error) {
			if n := c.stored[name]; n != nil {
				return n, nil
			}
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
		},
		Metrics: podsecurity.Metrics{
			Evaluated: func(_ *admission.Request, e podsecurity.Evaluation) {
				c.counted = append(c.counted, fmt.Sprint(e.Mode, " ", e.Standard, " ", e.Allowed))
			},
			Exempted: func(*admission.Request) { c.counted = append(c.counted, "exempt") },
			Failed:   func(_ *admission.Request, fatal bool) { c.counted = append(c.counted, fmt.Sprint("failed ", fatal)) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func namespace(name string, labels ...string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		n.Labels["pod-security.kubernetes.io/"+key] = value
	}
	return n
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
}

// hosted is a pod that violates baseline.
func hosted(name string) *corev1.Pod {
	p := pod(name)
	p.Spec.HostNetwork = true
	return p
}

func create(object metav1.Object, resource, group string) *admission.Request {
	return &admission.Request{
		Operation: admission.Create, Namespace: object.GetNamespace(), Name: object.GetName(), Object: object, User: &user.Info{Name: "jane"},
		Resource: admission.GroupVersionResource{Group: group, Version: "v1", Resource: resource},
		Kind:     admission.GroupVersionKind{Group: group, Version: "v1", Kind: "Namespace"}, // only used for namespaces
	}
}

func update(now, was metav1.Object, resource string) *admission.Request {
	r := create(now, resource, "")
	r.Operation, r.OldObject = admission.Update, was
	return r
}

// outcome returns the answer of a plugin to a request, as lines: the error, warnings, annotations.
func outcome(t testing.TB, p *podsecurity.Plugin, r *admission.Request) string {
	t.Helper()
	var lines []string
	r.Warn = func(m string) { lines = append(lines, "warning: "+m) }
	r.Annotate = func(k, v string) {
		lines = append(lines, strings.TrimPrefix(k, "pod-security.kubernetes.io/")+": "+v)
	}
	if err := p.Validate(t.Context(), r); err != nil {
		lines = append(lines, "error: "+err.Error())
	}
	return strings.Join(lines, "\n")
}

func Example() {
	namespaces := localcache.NewMap[*corev1.Namespace]()
	namespaces.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"},
	}})
	plugin, err := podsecurity.New(podsecurity.Config{
		Namespaces: namespaces, Pods: podsOf{},
		Lookup: func(context.Context, string) (*corev1.Namespace, error) { return nil, errors.New("no store") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := admission.Chain{Validators: []admission.Validator{plugin}}
	fmt.Println(chain.Validate(context.Background(), create(pod("web"), "pods", "")))
	fmt.Println(chain.Validate(context.Background(), create(hosted("web"), "pods", "")))
	// Output:
	// <nil>
	// pods "web" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)
}

func ExampleStandards() {
	standards := podsecurity.NewStandards()
	p := pod("web")
	for _, s := range []podsecurity.Standard{{Level: podsecurity.Baseline}, {Level: podsecurity.Restricted, Version: podsecurity.V(8)}} {
		found := standards.Evaluate(s, &p.ObjectMeta, &p.Spec)
		fmt.Printf("%v: %d violations [%v]\n", s, len(found), found.Reasons())
	}
	// Output:
	// baseline:latest: 0 violations []
	// restricted:v1.8: 2 violations [allowPrivilegeEscalation != false, runAsNonRoot != true]
}

const webViolates = `allowPrivilegeEscalation != false (container "web" must set securityContext.allowPrivilegeEscalation=false), ` +
	`unrestricted capabilities (container "web" must set securityContext.capabilities.drop=["ALL"]), ` +
	`runAsNonRoot != true (pod or container "web" must set securityContext.runAsNonRoot=true), ` +
	`seccompProfile (pod or container "web" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`

// TestPods: what a pod gets by the labels of its namespace.
func TestPods(t *testing.T) {
	for _, c := range []struct {
		labels  string
		pod     *corev1.Pod
		want    string
		counted string
	}{
		{"", hosted("a"), "enforce-policy: privileged:latest", "enforce privileged:latest true"},
		{"enforce=privileged enforce-version=v1.20", hosted("a"), "enforce-policy: privileged:latest", "enforce privileged:v1.20 true"},
		{"enforce=baseline", pod("a"), "enforce-policy: baseline:latest", "enforce baseline:latest true"},
		{"enforce=baseline audit=restricted enforce-version=v1.22", pod("a"),
			"enforce-policy: baseline:v1.22\naudit-violations: would violate PodSecurity \"restricted:latest\": " + webViolates,
			"enforce baseline:v1.22 true, audit restricted:latest false"},
		{"enforce=baseline warn=restricted", pod("a"),
			"enforce-policy: baseline:latest\nwarning: would violate PodSecurity \"restricted:latest\": " + webViolates,
			"enforce baseline:latest true, warn restricted:latest false"},
		{"enforce=restricted audit=baseline warn=baseline", hosted("a"),
			"enforce-policy: restricted:latest\n" +
				`audit-violations: would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)` + "\n" +
				`error: pods "a" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true), ` + webViolates,
			"enforce restricted:latest false, audit baseline:latest false"},
		{"enforce=none", pod("a"),
			"error: Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"none\": " +
				"must be one of privileged, baseline, restricted\nenforce-policy: restricted:latest\n" +
				`error: pods "a" is forbidden: violates PodSecurity "restricted:latest": ` + webViolates,
			"failed false, enforce restricted:latest false"},
	} {
		all := newCluster(namespace("shop", strings.Fields(c.labels)...))
		if got := outcome(t, all.plugin(t, podsecurity.Configuration{}), create(c.pod, "pods", "")); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.labels, got, c.want)
		}
		if got := strings.Join(all.counted, ", "); got != c.counted {
			t.Errorf("%s: counted %s, want %s", c.labels, got, c.counted)
		}
	}
}

// TestUpdates: only changes of images and of the set of containers are evaluated.
func TestUpdates(t *testing.T) {
	p := newCluster(namespace("shop", "enforce=baseline")).plugin(t, podsecurity.Configuration{})
	withInit, withEphemeral, image, label := hosted("a"), hosted("a"), hosted("a"), hosted("a")
	withInit.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	withEphemeral.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	otherEphemeral := withEphemeral.DeepCopy()
	otherEphemeral.Spec.EphemeralContainers[0].Image = "other"
	image.Spec.Containers[0].Image = "other"
	label.Labels = map[string]string{"a": "b"}
	for _, c := range []struct {
		now, was    *corev1.Pod
		subresource string
		refused     bool
	}{
		{label, hosted("a"), "", false},
		{image, hosted("a"), "", true},
		{withInit, hosted("a"), "", true},
		{withEphemeral, hosted("a"), "ephemeralcontainers", true},
		{otherEphemeral, withEphemeral, "ephemeralcontainers", true},
		{withEphemeral, withEphemeral, "ephemeralcontainers", false},
		{hosted("a"), withEphemeral, "ephemeralcontainers", false},
		{image, hosted("a"), "status", false},
		{image, hosted("a"), "resize", true},
		{image, hosted("a"), "unknown", true},
	} {
		r := update(c.now, c.was, "pods")
		r.Subresource = c.subresource
		if got := outcome(t, p, r); strings.Contains(got, "error") != c.refused {
			t.Errorf("an update with subresource %q of %v to %v gives %q, want an error: %t", c.subresource, c.was, c.now, got, c.refused)
		}
	}
	for _, r := range []*admission.Request{update(namespace("x"), pod("a"), "pods"), update(pod("a"), namespace("x"), "pods")} {
		r.Namespace = "shop"
		if err := p.Validate(t.Context(), r); !apierrors.IsBadRequest(err) {
			t.Errorf("Validate(an update of %T to %T as a pod) = %v, want BadRequest", r.OldObject, r.Object, err)
		}
	}
	remove := create(hosted("a"), "pods", "")
	remove.Operation = admission.Delete
	if err := p.Validate(t.Context(), remove); err != nil {
		t.Error(err)
	}
}

// TestWorkloads: all kinds with templates are audited and warned about, and never refused.
func TestWorkloads(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "a"}
	template := corev1.PodTemplateSpec{Spec: hosted("").Spec}
	for _, c := range []struct {
		object          metav1.Object
		group, resource string
	}{
		{&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &template}}, "", "replicationcontrollers"},
		{&corev1.PodTemplate{ObjectMeta: meta, Template: template}, "", "podtemplates"},
		{&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template}}, "apps", "deployments"},
		{&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: template}}, "apps", "replicasets"},
		{&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template}}, "apps", "statefulsets"},
		{&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template}}, "apps", "daemonsets"},
		{&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}}, "batch", "jobs"},
		{&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}}, "batch", "cronjobs"},
	} {
		p := newCluster(namespace("shop", "enforce=baseline", "audit=baseline")).plugin(t, podsecurity.Configuration{})
		r := create(c.object, c.resource, c.group)
		const violates = `would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`
		if got := outcome(t, p, r); got != "audit-violations: "+violates+"\nwarning: "+violates {
			t.Errorf("a create of %s gives %q, want only the audit annotation and the warning %q", c.resource, got, violates)
		}
		r.Subresource = "scale"
		if got := outcome(t, p, r); got != "" {
			t.Errorf("%s/scale: %s", c.resource, got)
		}
	}
	p := newCluster(namespace("shop", "warn=baseline")).plugin(t, podsecurity.Configuration{})
	if got := outcome(t, p, create(&corev1.ReplicationController{ObjectMeta: meta}, "replicationcontrollers", "")); got != "" {
		t.Errorf("without a template: %s", got)
	}
	strange := create(namespace("a"), "jobs", "batch")
	strange.Namespace = "shop"
	if got := outcome(t, p, strange); got != "error: failed to decode object: unexpected type *v1.Namespace" {
		t.Error(got)
	}
}

// TestMissingNamespace: the store is asked, and an error refuses pods alone.
func TestMissingNamespace(t *testing.T) {
	all := newCluster()
	p := all.plugin(t, podsecurity.Configuration{})
	r := create(hosted("a"), "pods", "")
	if err := p.Validate(t.Context(), r); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `failed to lookup namespace "shop"`) {
		t.Errorf("Validate(a pod in a missing namespace) = %v, want an InternalError: failed to lookup namespace %q", err, "shop")
	}
	workload := create(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}, "jobs", "batch")
	if got := outcome(t, p, workload); got != `error: failed to lookup namespace "shop": namespaces "shop" not found` {
		t.Error(got)
	}
	all.stored["shop"] = namespace("shop", "enforce=baseline")
	if err := p.Validate(t.Context(), r); !strings.Contains(fmt.Sprint(err), "violates") {
		t.Errorf("Validate(a pod in a namespace that enforces baseline) = %v, want an error with %q", err, "violates")
	}
}

// TestExemptions: exempt requests are recorded and pass.
func TestExemptions(t *testing.T) {
	all := newCluster(namespace("shop", "enforce=baseline"), namespace("system", "enforce=baseline"))
	p := all.plugin(t, podsecurity.Configuration{
		Defaults:   podsecurity.Policy{Warn: podsecurity.Standard{Level: podsecurity.Restricted}},
		Exemptions: podsecurity.Exemptions{Usernames: []string{"root"}, Namespaces: []string{"system"}, RuntimeClasses: []string{"vm"}},
	})
	byRoot, inSystem, inVM := create(hosted("a"), "pods", ""), create(hosted("a"), "pods", ""), create(hosted("a"), "pods", "")
	byRoot.User = &user.Info{Name: "root"}
	inSystem.Namespace = "system"
	class := "vm"
	inVM.Object.(*corev1.Pod).Spec.RuntimeClassName = &class
	for want, r := range map[string]*admission.Request{"user": byRoot, "namespace": inSystem, "runtimeClass": inVM} {
		if got := outcome(t, p, r); got != "exempt: "+want {
			t.Errorf("a create of a pod with an exempt %s gives %q, want %q", want, got, "exempt: "+want)
		}
	}
	job := create(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system"}}, "jobs", "batch")
	if got := outcome(t, p, job); got != "exempt: namespace" || strings.Join(all.counted, ", ") != "exempt, exempt, exempt, exempt" {
		t.Errorf("%s; counted %v", got, all.counted)
	}
	n := create(namespace("system", "enforce=baseline", "audit-version=v1.20"), "namespaces", "")
	if got := outcome(t, p, n); got != `warning: namespace "system" is exempt from Pod Security, and the policy (enforce=baseline:latest) will be ignored` {
		t.Error(got)
	}
	if got := outcome(t, p, create(namespace("system"), "namespaces", "")); got != "" {
		t.Error(got)
	}
}

// BenchmarkPod evaluates a pod of two containers that passes, in namespaces of each level.
func BenchmarkPod(b *testing.B) {
	for _, level := range []string{"privileged", "baseline", "restricted"} {
		b.Run("level="+level, func(b *testing.B) {
			namespaces := localcache.NewMap[*corev1.Namespace]()
			namespaces.Put(namespace("shop", "enforce="+level))
			p, err := podsecurity.New(podsecurity.Config{
				Namespaces: namespaces, Pods: podsOf{},
				Lookup: func(context.Context, string) (*corev1.Namespace, error) { return nil, errors.New("no store") },
			})
			if err != nil {
				b.Fatal(err)
			}
			yes, no := true, false
			good := pod("a")
			good.Spec.Containers = append(good.Spec.Containers, corev1.Container{Name: "log", Image: "fluentd"})
			good.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
			for i := range good.Spec.Containers {
				good.Spec.Containers[i].SecurityContext = &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				}
			}
			r := create(good, "pods", "")
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Validate(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
