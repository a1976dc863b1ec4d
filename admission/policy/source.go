package policy

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/rules"
	"github.com/planekit/planekit/internal/kubecel/authorizer"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patience is how long a request waits for the first policies.
const patience = 10 * time.Second

// source holds the policies of one kind, and reads what their evaluation needs.
type source struct {
	namespaces localcache.Getter[*corev1.Namespace]
	lookup     func(ctx context.Context, name string) (*corev1.Namespace, error)
	params     Params
	authorizer authorizer.Authorizer
	compiler   *compiler
	synced     chan struct{}
	policies   atomic.Pointer[[]*policy] // nil until the caches have synced
}

// Synced returns a channel that is closed when policies apply.
func (s *source) Synced() <-chan struct{} { return s.synced }

var errNotReady = errors.New("not yet ready to handle request")

// current returns the policies that may apply to r.
func (s *source) current(ctx context.Context, r *admission.Request) ([]*policy, error) {
	if rules.Exempt(r.Kind) {
		return nil, nil
	}
	if all := s.policies.Load(); all != nil {
		return *all, nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.synced:
		return *s.policies.Load(), nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, admission.Forbidden(r, errNotReady)
}

// follow keeps the policies of s those of the caches until ctx is done.
func follow[P, B metav1.Object](ctx context.Context, s *source, policies localcache.ListSubscriber[P], bindings localcache.ListSubscriber[B],
	compile func(context.Context, P) *policy, bind func(B) *binding) error {
	wake := make(chan struct{}, 1) // size 1: something has changed
	changed := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	ofPolicies := policies.Subscribe(func(_, _ P) { changed() })
	defer ofPolicies.Stop()
	ofBindings := bindings.Subscribe(func(_, _ B) { changed() })
	defer ofBindings.Stop()
	for _, synced := range []<-chan struct{}{policies.Synced(), bindings.Synced()} {
		select {
		case <-synced:
		case <-ctx.Done():
			return nil
		}
	}
	var known []*policy
	for first := true; ; first = false {
		next := bound(ctx, policies.All(), bindings.All(), known, compile, bind)
		s.policies.Store(&next)
		known = next
		if first {
			close(s.synced)
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// bound returns the policies that have bindings, by name. Those that have not changed are taken from known.
func bound[P, B metav1.Object](ctx context.Context, policies iter.Seq[P], bindings iter.Seq[B], known []*policy, compile func(context.Context, P) *policy, bind func(B) *binding) []*policy {
	byPolicy := map[string][]*binding{}
	for b := range bindings {
		one := bind(b)
		byPolicy[one.policy] = append(byPolicy[one.policy], one)
	}
	byObject := map[metav1.Object]*policy{}
	for _, p := range known {
		byObject[p.from] = p
	}
	all := []*policy{}
	for from := range policies {
		of := byPolicy[from.GetName()]
		if len(of) == 0 {
			continue
		}
		slices.SortFunc(of, func(a, b *binding) int { return strings.Compare(a.name, b.name) })
		var p policy
		if was := byObject[from]; was != nil {
			p = *was
		} else {
			p = *compile(ctx, from)
		}
		p.from, p.name, p.bindings = from, from.GetName(), of
		all = append(all, &p)
	}
	slices.SortFunc(all, func(a, b *policy) int { return strings.Compare(a.name, b.name) })
	return all
}
