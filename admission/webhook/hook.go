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
	// equivalent means that the rules also cover requests for equivalent resources.
	equivalent bool
	// namespaces and objects are nil if they select everything.
	namespaces, objects labels.Selector
	broken              error // error in the selectors
	match               Match // nil without conditions
	ignore              bool  // ignore failures
	timeout             time.Duration
	// effects is the declared side effects of the webhook; nil if it declares none.
	effects        *registration.SideEffectClass
	version        string // of the reviews; empty if there is none that both sides know
	mutates, again bool
	caller         *caller
	patches        *patched.Decoder
}

// timeout is the default timeout of a webhook.
const timeout = 10 * time.Second

var errNoConditions = errors.New("match conditions are not supported by this server")

// The versions of AdmissionReview. The older one has the same form, but its responses may leave more out.
const (
	v1      = "v1"
	v1beta1 = "v1beta1"
)

// reviewVersion returns the first known version of those that a webhook takes.
func reviewVersion(taken []string) string {
	i := slices.IndexFunc(taken, func(v string) bool { return v == v1 || v == v1beta1 })
	if i < 0 {
		return ""
	}
	return taken[i]
}

func (p *Plugin) compile(calls *callers, configuration string, w *registration.ValidatingWebhook) *hook {
	h := &hook{
		configuration: configuration,
		name:          w.Name,
		ignore:        w.FailurePolicy != nil && *w.FailurePolicy == registration.Ignore,
		timeout:       timeout,
		effects:       w.SideEffects,
		version:       reviewVersion(w.AdmissionReviewVersions),
		caller:        calls.get(w.ClientConfig),
		patches:       &p.patches,
		equivalent:    w.MatchPolicy != nil && *w.MatchPolicy == registration.Equivalent,
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

// asks returns the question that h must be asked, nil if it need not be. An error refuses the request.
func (p *Plugin) asks(ctx context.Context, h *hook, all *questions) (*question, error) {
	r := all.own.r
	as, covered := rules.Own(r), h.covers(r)
	if !covered && h.equivalent {
		as, covered = rules.Equivalent(r, len(h.rules), func(rule int, as admission.GroupVersionResource) bool {
			return h.rules[rule].CoversAs(r, as)
		})
	}
	if !covered {
		return nil, nil
	}
	if h.broken != nil {
		return nil, apierrors.NewInternalError(h.broken)
	}
	if h.objects != nil && !rules.Labelled(h.objects, r.Object) && !rules.Labelled(h.objects, r.OldObject) {
		return nil, nil
	}
	if ok, err := p.inside(ctx, h, r); !ok || err != nil {
		return nil, err
	}
	q, err := all.as(ctx, as)
	if err != nil {
		return nil, err
	}
	return p.fits(ctx, h, q)
}

// fits returns q if it meets the conditions of h, or else nil.
func (p *Plugin) fits(ctx context.Context, h *hook, q *question) (*question, error) {
	if h.match == nil {
		return q, nil
	}
	asked, err := q.request()
	if err != nil {
		return nil, err
	}
	ok, err := h.match(ctx, q.r, asked)
	switch {
	case ok && err == nil:
		return q, nil
	case err == nil:
		return nil, nil
	case h.ignore:
		p.config.Log.Error(err, "match conditions of a webhook fail, it is not asked", "webhook", h.name)
		return nil, nil
	}
	resource := schema.GroupResource{Group: q.sent.Resource.Group, Resource: q.sent.Resource.Resource}
	return nil, apierrors.NewForbidden(resource, q.sent.Name, err)
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
