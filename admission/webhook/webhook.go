// Package webhook asks HTTPS servers of one's own about requests: the
// MutatingAdmissionWebhook and ValidatingAdmissionWebhook plugins of Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/).
//
//	hooks, err := webhook.New(webhook.Config{
//		Mutating: mutatingInformer, Validating: validatingInformer,
//		Namespaces: namespaceInformer, Lookup: getNamespace,
//		Compile: conditions.Compile, // of package matchcel
//	})
//	go hooks.Run(ctx)
//	chain := admission.Chain{
//		Mutators:   []admission.Mutator{..., hooks},   // after all others
//		Validators: []admission.Validator{..., hooks}, // before quota only
//	}
//
// Whom to ask about what is said by MutatingWebhookConfigurations and
// ValidatingWebhookConfigurations, which are followed in local copies and
// compiled once per change. Configurations are taken in the order of their
// names. Mutating webhooks are asked one after another, each about what the one
// before has left; when one has changed the object, those with reinvocationPolicy
// IfNeeded that were asked before it are asked a second time, once. Validating
// webhooks are asked all at once, and all must agree.
//
// A webhook that refuses ends the request with its own message and code. One
// that cannot be asked, or answers nonsense, fails the request with 500 where its
// failurePolicy is Fail; where it is Ignore the request goes on, and the audit
// event says so (failed-open.validating.webhook.admission.k8s.io/round_0_index_0).
// Nobody is asked about webhook configurations themselves, so that a bad one can
// be taken away again. Requests wait up to 10 s for the first full list of
// configurations and then fail.
//
// Every kind is known in one version, so matchPolicy Equivalent is the same as
// Exact. Reviews are of admission.k8s.io/v1; a webhook that speaks only v1beta1
// cannot be asked. Patches are not put into audit events.
package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/bodycost"
	"github.com/planekit/planekit/localcache"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

// Match says whether a webhook's conditions let it be asked about a request,
// which is described in asked but for its objects. It must not change anything
// and must be safe for concurrent use.
type Match = func(ctx context.Context, r *admission.Request, asked *admissionapi.AdmissionRequest) (bool, error)

// A Resolver finds out where a service is. The URL's host is host:port; no more
// of it is used.
type Resolver interface {
	Resolve(ctx context.Context, namespace, name string, port int32) (*url.URL, error)
}

// Config says which webhooks there are and how they are reached. Namespaces and
// Lookup must be set.
type Config struct {
	// Mutating and Validating are local copies of the configurations. Nil means
	// that there are none of the kind.
	Mutating   localcache.ListSubscriber[*registration.MutatingWebhookConfiguration]
	Validating localcache.ListSubscriber[*registration.ValidatingWebhookConfiguration]
	// Namespaces is a local copy of all namespaces, for namespaceSelector.
	Namespaces localcache.Getter[*corev1.Namespace]
	// Lookup reads a namespace, which the local copy does not have, from where it
	// is stored. It fails with a NotFound API error when there is none.
	Lookup func(ctx context.Context, name string) (*corev1.Namespace, error)
	// Compile makes one function of a webhook's match conditions. It is asked only
	// where there are some. Nil makes every request that they would decide fail,
	// or pass without the webhook, by its failurePolicy.
	Compile func([]registration.MatchCondition) (Match, error)
	// Resolver finds services. Nil dials <name>.<namespace>.svc.
	Resolver Resolver
	// Certificate returns the client certificate for a server, named as host:port.
	// Nil, or a nil certificate, presents none.
	Certificate func(server string) (*tls.Certificate, error)
	// Again are the mutators that stand before this one: they run once more when a
	// webhook has changed the object. Nil is none.
	Again admission.Mutator
	// Log is told of webhooks that fail. The zero Logger is silent.
	Log logr.Logger
}

// patience is for how long a request waits for the first configurations, as in
// kube-apiserver.
const patience = 10 * time.Second

// Plugin is an [admission.Mutator] and an [admission.Validator].
type Plugin struct {
	config Config
	synced chan struct{}
	// Empty until the first full list of each.
	mutating, validating atomic.Pointer[[]*hook]
	costs                bodycost.Types
}

// New checks c. It starts nothing.
func New(c Config) (*Plugin, error) {
	if c.Namespaces == nil || c.Lookup == nil {
		return nil, errors.New("webhook: Namespaces and Lookup must be set")
	}
	p := &Plugin{config: c, synced: make(chan struct{})}
	if c.Mutating == nil {
		p.mutating.Store(&[]*hook{})
	}
	if c.Validating == nil {
		p.validating.Store(&[]*hook{})
	}
	return p, nil
}

// Synced is closed once webhooks are being asked.
func (p *Plugin) Synced() <-chan struct{} { return p.synced }

// Run follows the configurations until ctx is done. It may be called once. What
// was known last stays in force after it.
func (p *Plugin) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1) // one: that something has changed since it was read
	calls := newCallers(&p.config)
	defer calls.close()
	mutating := follow(p.config.Mutating, wake, func(c *registration.MutatingWebhookConfiguration) []*hook { return p.mutatingHooks(calls, c) })
	defer mutating.stop()
	validating := follow(p.config.Validating, wake, func(c *registration.ValidatingWebhookConfiguration) []*hook { return p.validatingHooks(calls, c) })
	defer validating.stop()
	if !mutating.await(ctx) || !validating.await(ctx) {
		return nil
	}
	for first := true; ; first = false {
		mutate, validate := mutating.hooks(), validating.hooks()
		p.mutating.Store(&mutate)
		p.validating.Store(&validate)
		calls.sweep(mutate, validate)
		if first {
			close(p.synced)
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// exempt are the kinds that nobody is asked about.
func exempt(k admission.GroupVersionKind) bool {
	if k.Group != registration.GroupName {
		return false
	}
	switch k.Kind {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		return true
	}
	return false
}

var errNotReady = errors.New("not yet ready to handle request")

// hooks are those of list that may be asked about r.
func (p *Plugin) hooks(ctx context.Context, r *admission.Request, list *atomic.Pointer[[]*hook]) ([]*hook, error) {
	if exempt(r.Kind) {
		return nil, nil
	}
	if hooks := list.Load(); hooks != nil {
		return *hooks, nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.synced:
		return *list.Load(), nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, admission.Forbidden(r, errNotReady)
}
