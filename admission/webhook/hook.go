package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/patched"
	"github.com/planekit/planekit/admission/internal/rules"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hook is one webhook, ready to be called. It is immutable.
type hook struct {
	configuration, name string
	rules               []rules.Rule
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
	patches        *patched.Decoder
}

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
		patches:       &p.patches,
	}
	if w.TimeoutSeconds != nil {
		h.timeout = time.Duration(*w.TimeoutSeconds) * time.Second
	}
	for i := range w.Rules {
		h.rules = append(h.rules, rules.New(&w.Rules[i]))
	}
	var wrong [2]error
	h.namespaces, wrong[0] = rules.Selector(w.NamespaceSelector)
	h.objects, wrong[1] = rules.Selector(w.ObjectSelector)
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

// covers reports whether a rule matches r.
func (h *hook) covers(r *admission.Request) bool {
	for i := range h.rules {
		if h.rules[i].Covers(r) {
			return true
		}
	}
	return false
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
	if h.objects != nil && !rules.Labelled(h.objects, r.Object) && !rules.Labelled(h.objects, r.OldObject) {
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

// inside reports whether h selects r's namespace. Cluster-scoped objects are always selected.
func (p *Plugin) inside(ctx context.Context, h *hook, r *admission.Request) (bool, error) {
	name := rules.NamespaceOf(r)
	if h.namespaces == nil || name == "" && !rules.IsNamespace(r) {
		return true, nil
	}
	if rules.IsNamespace(r) && r.Subresource == "" && r.Object != nil {
		return rules.Labelled(h.namespaces, r.Object), nil
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
