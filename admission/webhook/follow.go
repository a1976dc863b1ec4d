package webhook

import (
	"context"
	"slices"
	"strings"

	"github.com/planekit/planekit/localcache"
	registration "k8s.io/api/admissionregistration/v1"
)

// follower keeps the compiled configurations of a cache. It belongs to one goroutine.
type follower[T configuration] struct {
	cache   localcache.ListSubscriber[T]
	compile func(T) []*hook
	stop    func()
	// known is by name. An unchanged configuration is the same pointer.
	known map[string]compiled[T]
}

type configuration interface {
	comparable
	GetName() string
}

type compiled[T any] struct {
	from  T
	hooks []*hook
}

// follow sends to wake whenever cache has changed. A nil cache is empty.
func follow[T configuration](cache localcache.ListSubscriber[T], wake chan<- struct{}, compile func(T) []*hook) *follower[T] {
	f := &follower[T]{cache: cache, compile: compile, stop: func() {}}
	if cache != nil {
		f.stop = cache.Subscribe(func(_, _ T) {
			select {
			case wake <- struct{}{}:
			default:
			}
		}).Stop
	}
	return f
}

// await waits for the cache to sync. It returns false if ctx ends before.
func (f *follower[T]) await(ctx context.Context) bool {
	if f.cache == nil {
		return true
	}
	select {
	case <-f.cache.Synced():
		return true
	case <-ctx.Done():
		return false
	}
}

// hooks returns the hooks of all configurations, in the order of their names.
func (f *follower[T]) hooks() []*hook {
	hooks := []*hook{}
	if f.cache == nil {
		return hooks
	}
	configurations := slices.SortedFunc(f.cache.All(), func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	known := make(map[string]compiled[T], len(configurations))
	for _, c := range configurations {
		done, ok := f.known[c.GetName()]
		if !ok || done.from != c {
			done = compiled[T]{c, f.compile(c)}
		}
		known[c.GetName()] = done
		hooks = append(hooks, done.hooks...)
	}
	f.known = known
	return hooks
}

func (p *Plugin) mutatingHooks(calls *callers, c *registration.MutatingWebhookConfiguration) []*hook {
	hooks := make([]*hook, len(c.Webhooks))
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		hooks[i] = p.compile(calls, c.Name, &registration.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			MatchPolicy: w.MatchPolicy, TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		})
		hooks[i].mutates = true
		hooks[i].again = w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == registration.IfNeededReinvocationPolicy
	}
	return hooks
}

func (p *Plugin) validatingHooks(calls *callers, c *registration.ValidatingWebhookConfiguration) []*hook {
	hooks := make([]*hook, len(c.Webhooks))
	for i := range c.Webhooks {
		hooks[i] = p.compile(calls, c.Name, &c.Webhooks[i])
	}
	return hooks
}
