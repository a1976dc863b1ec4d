package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/bodycost"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hook is one webhook, ready to be called. It is immutable.
type hook struct {
	configuration, name string
	rules               []rule
	// namespaces and objects are nil if they select everything.
	namespaces, objects labels.Selector
	broken              error // error in the selectors
	match               Match // nil without conditions
	ignore              bool  // ignore failures
	timeout             time.Duration
	// effects is the declared side effects of the webhook; nil if it declares none.
	effects        *registration.SideEffectClass
	speaks         bool // supports v1
	mutates, again bool
	caller         *caller
	costs          *bodycost.Types
}

// rule is a registration.Rule with parsed resources.
type rule struct {
	operations       []registration.OperationType
	groups, versions []string
	resources        []pair
	scope            registration.ScopeType
}

// pair is a resource and a subresource; the latter is empty for the resource itself.
type pair struct{ resource, sub string }

const anything = "*"

// timeout is the default timeout of a webhook.
const timeout = 10 * time.Second

var errNoConditions = errors.New("match conditions are not supported by this server")

func (p *Plugin) compile(calls *callers, configuration string, w *registration.ValidatingWebhook) *hook {
	h := &hook{
		configuration: configuration,
		name:          w.Name,
		ignore:        w.FailurePolicy != nil && *w.FailurePolicy == registration.Ignore,
		timeout:       timeout,
		effects:       w.SideEffects,
		speaks:        slices.Contains(w.AdmissionReviewVersions, admissionapi.SchemeGroupVersion.Version),
		caller:        calls.get(w.ClientConfig),
		costs:         &p.costs,
	}
	if w.TimeoutSeconds != nil {
		h.timeout = time.Duration(*w.TimeoutSeconds) * time.Second
	}
	for i := range w.Rules {
		h.rules = append(h.rules, newRule(&w.Rules[i]))
	}
	var wrong [2]error
	h.namespaces, wrong[0] = selector(w.NamespaceSelector)
	h.objects, wrong[1] = selector(w.ObjectSelector)
	h.broken = errors.Join(wrong[:]...)
	if len(w.MatchConditions) > 0 {
		h.match = p.condition(w)
	}
	return h
}

// condition compiles the conditions of w. Conditions that do not compile fail when they are
// evaluated.
func (p *Plugin) condition(w *registration.ValidatingWebhook) Match {
	err := errNoConditions
	if p.config.Compile != nil {
		var match Match
		if match, err = p.config.Compile(w.MatchConditions); err == nil {
			return match
		}
		p.config.Log.Error(err, "match conditions of a webhook do not compile", "webhook", w.Name)
	}
	return func(context.Context, *admission.Request, *admissionapi.AdmissionRequest) (bool, error) {
		return false, err
	}
}

func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return nil, nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

func newRule(from *registration.RuleWithOperations) rule {
	r := rule{operations: from.Operations, groups: from.APIGroups, versions: from.APIVersions, scope: registration.AllScopes}
	if from.Scope != nil {
		r.scope = *from.Scope
	}
	for _, s := range from.Resources {
		resource, sub, _ := strings.Cut(s, "/")
		r.resources = append(r.resources, pair{resource, sub})
	}
	return r
}

// covers reports whether a rule matches r.
func (h *hook) covers(r *admission.Request) bool {
	for i := range h.rules {
		if h.rules[i].covers(r) {
			return true
		}
	}
	return false
}

func (u *rule) covers(r *admission.Request) bool {
	return u.does(r.Operation) && u.names(r) && has(u.groups, r.Resource.Group) && has(u.versions, r.Resource.Version) && u.reaches(r)
}

func (u *rule) does(op admission.Operation) bool {
	for _, o := range u.operations {
		if o == registration.OperationAll || string(o) == string(op) {
			return true
		}
	}
	return false
}

func (u *rule) names(r *admission.Request) bool {
	for _, p := range u.resources {
		if (p.resource == anything || p.resource == r.Resource.Resource) && (p.sub == anything || p.sub == r.Subresource) {
			return true
		}
	}
	return false
}

// reaches reports whether r is in the rule's scope. A Namespace object is cluster-scoped.
func (u *rule) reaches(r *admission.Request) bool {
	inside := r.Namespace != "" && !isNamespace(r)
	switch u.scope {
	case registration.NamespacedScope:
		return inside
	case registration.ClusterScope:
		return !inside
	}
	return u.scope == registration.AllScopes
}

func has(list []string, s string) bool {
	for _, item := range list {
		if item == anything || item == s {
			return true
		}
	}
	return false
}

func isNamespace(r *admission.Request) bool {
	return r.Resource.Group == "" && r.Resource.Resource == "namespaces"
}

// namespaceOf returns the namespace in a review. A Namespace counts as being in itself.
func namespaceOf(r *admission.Request) string {
	if r.Namespace == "" && isNamespace(r) {
		return r.Name
	}
	return r.Namespace
}

// asks reports whether h must be called for q. An error refuses the request.
func (p *Plugin) asks(ctx context.Context, h *hook, q *question) (bool, error) {
	r := q.r
	if !h.covers(r) {
		return false, nil
	}
	if h.broken != nil {
		return false, apierrors.NewInternalError(h.broken)
	}
	if h.objects != nil && !labelled(h.objects, r.Object) && !labelled(h.objects, r.OldObject) {
		return false, nil
	}
	if ok, err := p.inside(ctx, h, r); !ok || err != nil {
		return false, err
	}
	if h.match == nil {
		return true, nil
	}
	asked, err := q.request()
	if err != nil {
		return false, err
	}
	ok, err := h.match(ctx, r, asked)
	switch {
	case err == nil:
		return ok, nil
	case h.ignore:
		p.config.Log.Error(err, "match conditions of a webhook fail, it is not asked", "webhook", h.name)
		return false, nil
	}
	resource := schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
	return false, apierrors.NewForbidden(resource, r.Name, err)
}

func labelled(s labels.Selector, object any) bool {
	o, ok := object.(interface{ GetLabels() map[string]string })
	return ok && s.Matches(labels.Set(o.GetLabels()))
}

// inside reports whether h selects r's namespace. Cluster-scoped objects are always selected.
func (p *Plugin) inside(ctx context.Context, h *hook, r *admission.Request) (bool, error) {
	name := namespaceOf(r)
	if h.namespaces == nil || name == "" && !isNamespace(r) {
		return true, nil
	}
	if isNamespace(r) && r.Subresource == "" && r.Object != nil {
		return labelled(h.namespaces, r.Object), nil
	}
	namespace, ok := p.config.Namespaces.Get(name)
	if !ok {
		var err error
		namespace, err = p.config.Lookup(ctx, name)
		var status apierrors.APIStatus
		switch {
		case errors.As(err, &status):
			return false, err
		case err != nil:
			return false, apierrors.NewInternalError(fmt.Errorf("namespace %s: %w", name, err))
		}
	}
	return h.namespaces.Matches(labels.Set(namespace.Labels)), nil
}
