// Package podsecurity enforces the Pod Security Standards in namespaces: the PodSecurity plugin of Kubernetes
// (https://kubernetes.io/docs/concepts/security/pod-security-admission/).
//
//	config, err := podsecurity.ParseConfig(file)
//	plugin, err := podsecurity.New(podsecurity.Config{
//		Configuration: config, Namespaces: informer, Lookup: get, Pods: podsByNamespace,
//	})
//	chain := admission.Chain{Validators: []admission.Validator{plugin}}
//
// [Standards] alone evaluates pods and templates, without requests or namespaces.
//
// # Model
//
// The labels pod-security.kubernetes.io/enforce, audit and warn of a namespace select a [Level] for each mode, and the
// same labels with -version a [Version]. A pod that violates the standard to enforce is refused with 403. A violation of
// the others is noted in the audit event, or sent to the client as a warning. Workloads with a template of pods are never
// refused; they are audited and warned about. An update of a pod is evaluated if it changes an image or adds a container,
// by pods/ephemeralcontainers too.
//
// Invalid labels of a namespace are refused with 422 when they are set. A change of the standard to enforce evaluates the
// pods that are there, and warns about those that violate it: at most 3,000 pods in at most one second, and
// first one pod of each controller.
//
// # Failure
//
// A pod in a namespace that cannot be read is refused with 500, a workload is not. In a namespace whose labels are invalid
// nevertheless, pods must meet the restricted standard. The caches may be stale: pods are judged by the labels that the
// cache has, and a namespace that it does not have is looked up.
package podsecurity

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/localcache"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "PodSecurity"

// Config configures the plugin. Namespaces, Lookup and Pods are required.
type Config struct {
	// Configuration has the defaults and exemptions. See [ParseConfig].
	Configuration
	// Namespaces is the cache of namespaces, by name.
	Namespaces localcache.Getter[*corev1.Namespace]
	// Lookup reads a namespace that the cache does not have from the store. It fails with a NotFound API error if
	// there is none.
	Lookup func(ctx context.Context, name string) (*corev1.Namespace, error)
	// Pods finds pods in a cache by namespace.
	Pods localcache.Index[string, *corev1.Pod]
	// Metrics receives what the plugin decides.
	Metrics Metrics
}

// Plugin is an [admission.Validator] of namespaces, pods and workloads.
type Plugin struct {
	config    Config
	standards *Standards
	exempt    exemptions
}

// New returns the plugin, or an error that lists the problems of the configuration.
func New(c Config) (*Plugin, error) {
	if c.Namespaces == nil || c.Lookup == nil || c.Pods == nil {
		return nil, errors.New("podsecurity: Namespaces, Lookup and Pods must be set")
	}
	if err := c.Configuration.validate(); err != nil {
		return nil, fmt.Errorf("podsecurity: %w", err)
	}
	return &Plugin{config: c, standards: NewStandards(), exempt: newExemptions(c.Exemptions)}, nil
}

// Validate evaluates a request. Other kinds, and deletions, are none of its concern.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Operation != admission.Create && r.Operation != admission.Update {
		return nil
	}
	switch r.Resource.Group {
	case corev1.GroupName:
		switch r.Resource.Resource {
		case "namespaces":
			return p.namespace(ctx, r)
		case "pods":
			return p.pod(ctx, r)
		case "replicationcontrollers", "podtemplates":
			p.workload(ctx, r)
		}
	case appsv1.GroupName:
		switch r.Resource.Resource {
		case "deployments", "replicasets", "statefulsets", "daemonsets":
			p.workload(ctx, r)
		}
	case batchv1.GroupName:
		switch r.Resource.Resource {
		case "jobs", "cronjobs":
			p.workload(ctx, r)
		}
	}
	return nil
}

// pod refuses a pod that violates the standard of its namespace.
func (p *Plugin) pod(ctx context.Context, r *admission.Request) error {
	switch r.Subresource {
	case "exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status":
		return nil // none of them changes what is checked
	}
	if p.exempted(r) {
		return nil
	}
	policy, problems, err := p.policyOf(ctx, r.Namespace)
	if err != nil {
		failed := apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q", r.Namespace))
		annotate(r, errorKey, fmt.Sprintf("%v: %v", failed, err))
		p.config.Metrics.failed(r, true)
		return failed
	}
	if len(problems) == 0 && policy.privileged() {
		p.config.Metrics.evaluated(r, Evaluation{Mode: Enforce, Standard: policy.Enforce, Allowed: true})
		annotate(r, policyKey, unrestricted)
		return nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return p.undecodable(r, "failed to decode pod")
	}
	if r.Operation == admission.Update {
		old, ok := r.OldObject.(*corev1.Pod)
		if !ok {
			return p.undecodable(r, "failed to decode old pod")
		}
		if !significant(pod, old) {
			return nil
		}
	}
	return p.evaluate(r, policy, problems, &pod.ObjectMeta, &pod.Spec, true)
}

func (p *Plugin) undecodable(r *admission.Request, message string) error {
	annotate(r, errorKey, message)
	p.config.Metrics.failed(r, true)
	return apierrors.NewBadRequest(message)
}

// significant reports whether an update of a pod changes what the checks look at. Of that, only images
// and containers can change.
func significant(pod, old *corev1.Pod) bool {
	changed := func(now, was []corev1.Container) bool {
		if len(now) != len(was) {
			return true
		}
		for i := range now {
			if now[i].Image != was[i].Image {
				return true
			}
		}
		return false
	}
	if changed(pod.Spec.Containers, old.Spec.Containers) || changed(pod.Spec.InitContainers, old.Spec.InitContainers) {
		return true
	}
	images := make(map[string]string, len(old.Spec.EphemeralContainers))
	for i := range old.Spec.EphemeralContainers {
		images[old.Spec.EphemeralContainers[i].Name] = old.Spec.EphemeralContainers[i].Image
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if image, ok := images[c.Name]; !ok || image != c.Image {
			return true
		}
	}
	return false
}

// workload audits and warns about the template of pods of a workload.
func (p *Plugin) workload(ctx context.Context, r *admission.Request) {
	if r.Subresource != "" || p.exempted(r) {
		return
	}
	policy, problems, err := p.policyOf(ctx, r.Namespace)
	if err != nil {
		annotate(r, errorKey, fmt.Sprintf("failed to lookup namespace %q: %v", r.Namespace, err))
		p.config.Metrics.failed(r, true)
		return
	}
	if len(problems) == 0 && policy.Audit.Level == Privileged && policy.Warn.Level == Privileged {
		return
	}
	template, ok := templateOf(r.Object)
	switch {
	case !ok:
		annotate(r, errorKey, fmt.Sprintf("failed to decode object: unexpected type %T", r.Object))
		p.config.Metrics.failed(r, true)
	case template != nil:
		_ = p.evaluate(r, policy, problems, &template.ObjectMeta, &template.Spec, false) // it refuses only pods
	}
}

// templateOf returns the template of a workload, which may have none.
func templateOf(object any) (_ *corev1.PodTemplateSpec, ok bool) {
	switch o := object.(type) {
	case *corev1.PodTemplate:
		return &o.Template, true
	case *corev1.ReplicationController:
		return o.Spec.Template, true
	case *appsv1.ReplicaSet:
		return &o.Spec.Template, true
	case *appsv1.Deployment:
		return &o.Spec.Template, true
	case *appsv1.DaemonSet:
		return &o.Spec.Template, true
	case *appsv1.StatefulSet:
		return &o.Spec.Template, true
	case *batchv1.Job:
		return &o.Spec.Template, true
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template, true
	}
	return nil, false
}

// policyOf returns the policy of a namespace and what is wrong with its labels.
func (p *Plugin) policyOf(ctx context.Context, namespace string) (Policy, field.ErrorList, error) {
	n, ok := p.config.Namespaces.Get(namespace)
	if !ok {
		var err error
		if n, err = p.config.Lookup(ctx, namespace); err != nil {
			return Policy{}, nil, err
		}
	}
	policy, problems := PolicyOf(n.Labels, p.config.Defaults)
	return policy, problems, nil
}

// unrestricted is how the standard of a namespace that allows everything is written.
var unrestricted = Standard{}.String()

// The keys of annotations of the audit event.
const (
	policyKey     = prefix + "enforce-policy"
	violationsKey = prefix + "audit-violations"
	exemptKey     = prefix + "exempt"
	errorKey      = prefix + "error"
)

func annotate(r *admission.Request, key, value string) {
	if r.Annotate != nil {
		r.Annotate(key, value)
	}
}

func warn(r *admission.Request, message string) {
	if r.Warn != nil {
		r.Warn(message)
	}
}

// evaluate evaluates a pod in all modes, or a template in all but the first.
func (p *Plugin) evaluate(r *admission.Request, policy Policy, problems field.ErrorList, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) error {
	if class := spec.RuntimeClassName; class != nil && p.exempt.runtimeClasses[*class] {
		p.pass(r, "runtimeClass")
		return nil
	}
	if len(problems) > 0 {
		annotate(r, errorKey, fmt.Sprintf("Failed to parse policy: %v", problems.ToAggregate()))
		p.config.Metrics.failed(r, false)
	}
	var known []evaluated // modes often have the same standard
	violations := func(s Standard) Violations {
		for _, k := range known {
			if k.standard == s {
				return k.found
			}
		}
		found := p.standards.Evaluate(s, meta, spec)
		known = append(known, evaluated{s, found})
		return found
	}
	var refusal error
	if enforce {
		annotate(r, policyKey, policy.Enforce.String())
		found := violations(policy.Enforce)
		if len(found) > 0 {
			refusal = admission.Forbidden(r, fmt.Errorf("violates PodSecurity %q: %v", policy.Enforce, found))
		}
		p.config.Metrics.evaluated(r, Evaluation{Mode: Enforce, Standard: policy.Enforce, Allowed: refusal == nil})
	}
	if found := violations(policy.Audit); len(found) > 0 {
		annotate(r, violationsKey, fmt.Sprintf("would violate PodSecurity %q: %v", policy.Audit, found))
		p.config.Metrics.evaluated(r, Evaluation{Mode: Audit, Standard: policy.Audit})
	}
	if refusal != nil {
		return refusal
	}
	if found := violations(policy.Warn); len(found) > 0 {
		warn(r, fmt.Sprintf("would violate PodSecurity %q: %v", policy.Warn, found))
		p.config.Metrics.evaluated(r, Evaluation{Mode: Warn, Standard: policy.Warn})
	}
	return nil
}

// evaluated holds what a standard finds in the pod of a request.
type evaluated struct {
	standard Standard
	found    Violations
}
