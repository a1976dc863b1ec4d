// Package webhook calls admission webhooks: the MutatingAdmissionWebhook and
// ValidatingAdmissionWebhook plugins of Kubernetes
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
// The webhooks are defined by MutatingWebhookConfigurations and ValidatingWebhookConfigurations,
// which are read from caches and compiled once per change. Configurations apply in the order of
// their names. Mutating webhooks are called one after another, each with the changes of its
// predecessors. If one changes the object, earlier ones with reinvocationPolicy IfNeeded are called
// once more. Validating webhooks are called all at once, and all must admit the request.
//
// A webhook that refuses a request ends it with its own message and code. If a webhook cannot be
// called, or its answer is invalid, the request fails with 500 if its failurePolicy is Fail. If it
// is Ignore, the request continues, and the audit event records it
// (failed-open.validating.webhook.admission.k8s.io/round_0_index_0). Webhooks are not called for
// webhook configurations, so that an invalid one can be deleted. Requests wait up to 10 s for the
// caches of configurations to sync and then fail.
//
// A webhook with the matchPolicy Equivalent is asked about the objects of a request in the version
// that its rules name, if that is another one. A request is converted once for all webhooks of a
// version, and again after its object has changed. Its patch is of that version, too. A request
// that cannot be converted fails with 500.
//
// Reviews are of admission.k8s.io/v1; a webhook that supports only v1beta1 cannot be called. Patches are not
// recorded in audit events.
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
	"github.com/planekit/planekit/admission/internal/patched"
	"github.com/planekit/planekit/admission/internal/rules"
	"github.com/planekit/planekit/localcache"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

// Match reports whether a webhook's conditions select a request. asked describes it without its
// objects. Match must not change anything and must be safe for concurrent use.
type Match = func(ctx context.Context, r *admission.Request, asked *admissionapi.AdmissionRequest) (bool, error)

// A Resolver returns the address of a service. Only the URL's host, which is host:port, is used.
type Resolver interface {
	Resolve(ctx context.Context, namespace, name string, port int32) (*url.URL, error)
}

// Config configures the plugin. Namespaces and Lookup are required.
type Config struct {
	// Mutating and Validating are the caches of the configurations. Nil means that there are none.
	Mutating   localcache.ListSubscriber[*registration.MutatingWebhookConfiguration]
	Validating localcache.ListSubscriber[*registration.ValidatingWebhookConfiguration]
	// Namespaces is the cache of namespaces, for namespaceSelector.
	Namespaces localcache.Getter[*corev1.Namespace]
	// Lookup reads a namespace that the cache does not have from the store. It fails with a
	// NotFound API error if there is none.
	Lookup func(ctx context.Context, name string) (*corev1.Namespace, error)
	// Compile compiles the match conditions of a webhook that has any. If it is nil, requests fail,
	// or skip the webhook, according to its failurePolicy.
	Compile func([]registration.MatchCondition) (Match, error)
	// Resolver resolves services. Nil dials <name>.<namespace>.svc.
	Resolver Resolver
	// Certificate returns the client certificate for a server, named as host:port. If it, or its
	// result, is nil, no certificate is presented.
	Certificate func(server string) (*tls.Certificate, error)
	// Again holds the mutators before this one: they run once more if a webhook has changed the
	// object. It may be nil.
	Again admission.Mutator
	// Repeat reports whether the mutators before this one must run once more even if no webhook has
	// changed the object. Nil means that they need not.
	Repeat func(context.Context) bool
	// Called, if not nil, is called after each call of a webhook, by many goroutines.
	Called func(Call)
	// Log receives failures of webhooks. The zero Logger discards them.
	Log logr.Logger
}

// A Call describes a call of a webhook for metrics.
type Call struct {
	// Webhook is the webhook's name in its configuration.
	Webhook string
	// Mutating is set for mutating webhooks.
	Mutating  bool
	Operation admission.Operation
	// Took covers the answer and, for a mutating webhook, applying its patch.
	Took time.Duration
	// Rejected is set if the webhook, or its failure, refuses the request.
	Rejected bool
}

// called reports a call of h for r that ended with err, nil if the request may go on.
func (p *Plugin) called(h *hook, r *admission.Request, took time.Duration, err error) {
	if p.config.Called != nil {
		p.config.Called(Call{Webhook: h.name, Mutating: h.mutates, Operation: r.Operation, Took: took, Rejected: err != nil})
	}
}

// patience is how long a request waits for the first configurations, as in kube-apiserver.
const patience = 10 * time.Second

// Plugin is an [admission.Mutator] and an [admission.Validator].
type Plugin struct {
	config Config
	synced chan struct{}
	// mutating and validating are nil until the caches have synced.
	mutating, validating atomic.Pointer[[]*hook]
	patches              patched.Decoder
}

// New returns the plugin. It starts no goroutine.
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

// Synced returns a channel that is closed when webhooks are called.
func (p *Plugin) Synced() <-chan struct{} { return p.synced }

// Run follows the configurations until ctx is done. The last ones then stay in force. It may be
// called once.
func (p *Plugin) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1) // size 1: the configurations have changed
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

var errNotReady = errors.New("not yet ready to handle request")

// hooks returns the hooks of list that may match r.
func (p *Plugin) hooks(ctx context.Context, r *admission.Request, list *atomic.Pointer[[]*hook]) ([]*hook, error) {
	if rules.Exempt(r.Kind) {
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
