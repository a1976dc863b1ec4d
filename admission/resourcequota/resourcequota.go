// Package resourcequota keeps what a namespace takes within its quotas: the
// ResourceQuota plugin of Kubernetes
// (https://kubernetes.io/docs/concepts/policy/resource-quotas/).
//
//	quotas, err := resourcequota.New(resourcequota.Config{ByNamespace: index, Lookup: list, Writer: client})
//	chain := admission.Chain{Validators: []admission.Validator{..., quotas}}
//
// It should stand last: what it admits is charged to the quotas, and what is
// refused after that was charged for nothing until a controller recounts.
//
// # Model
//
// A quota's status says what is used. An object is admitted when its usage was
// added there, by a write that is refused if the quota has moved since it was
// read; so any number of servers on one store never admit more than the limit
// between them. Requests of one namespace that arrive during such a write wait,
// and the next write charges for all of them.
//
// An update is charged what it takes more; what takes less or the same always
// passes. Nothing is given back here, but to one quota when another refuses: the
// controller of reconcile/controllers does so, when objects are gone or have
// ended, and when an object that was charged for was not made after all. A dry
// run is decided like all else and charges nothing.
//
// A quota applies once the controller has filled its status.
//
// # Staleness and failures
//
// Quotas are read from a local copy; where it has none for a namespace they are
// looked up, at most every half a minute. Nobody is refused because of an old
// copy: before a quota is said to be exceeded, it is read from where it is
// stored. A quota that cannot be written fails the request with 500.
//
// # Left out
//
// The configuration of resources that are limited without a quota, resource
// claims, and the charge for changes of a claim's status.
package resourcequota

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/recent"
	"github.com/planekit/planekit/internal/usage"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Numbers of Kubernetes' plugin.
const (
	remembered = 30 * time.Second // for which a look-up is believed
	patience   = 10 * time.Second // for charging one batch of requests
)

// Config joins the plugin to its surroundings. All fields must be set.
type Config struct {
	// ByNamespace is a local copy of all quotas, by namespace.
	ByNamespace localcache.Index[string, *corev1.ResourceQuota]
	// Lookup reads the quotas of a namespace from where they are stored.
	Lookup func(ctx context.Context, namespace string) ([]*corev1.ResourceQuota, error)
	// Writer reads one quota from where it is stored, and writes its status,
	// guarded by its resource version. The requests that it makes pass no quota.
	Writer interface {
		Get(ctx context.Context, namespace, name string) (*corev1.ResourceQuota, error)
		UpdateStatus(ctx context.Context, quota *corev1.ResourceQuota) (*corev1.ResourceQuota, error)
	}
}

// Plugin is an [admission.Validator].
type Plugin struct {
	config  Config
	lookups *recent.Lookups[[]*corev1.ResourceQuota]

	mu    sync.Mutex
	lines map[string]*line // by namespace; guarded by mu
	// written are the quotas, by namespace and name, as this plugin wrote or read
	// them last. They go when the copy has caught up. Guarded by mu.
	written map[string]map[string]*corev1.ResourceQuota
}

// New returns the plugin.
func New(c Config) (*Plugin, error) {
	if c.ByNamespace == nil || c.Lookup == nil || c.Writer == nil {
		return nil, errors.New("resourcequota: ByNamespace, Lookup and Writer must be set")
	}
	return &Plugin{
		config:  c,
		lookups: recent.New[[]*corev1.ResourceQuota](remembered),
		lines:   map[string]*line{},
		written: map[string]map[string]*corev1.ResourceQuota{},
	}, nil
}

// Validate refuses what exceeds a quota and charges the rest.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if !concerns(r) {
		return nil
	}
	quotas, err := p.quotas(ctx, r.Namespace)
	if err != nil {
		return admission.Forbidden(r, err)
	}
	if len(quotas) == 0 {
		return nil
	}
	resource := schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
	demand := &demand{request: r, kind: usage.For(resource), now: time.Now()}
	charged := false
	for _, q := range quotas {
		more, err := demand.of(q)
		if err != nil {
			return err
		}
		charged = charged || len(more) > 0
	}
	if !charged {
		return nil
	}
	return p.charge(ctx, demand)
}

// concerns reports whether r can change what its namespace takes.
func concerns(r *admission.Request) bool {
	if r.Namespace == "" || r.Object == nil || usage.Ignored(schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}) {
		return false
	}
	core := r.Resource.Group == corev1.GroupName
	switch r.Operation {
	case admission.Create:
		// Namespaces are created in themselves, for who asks about the request.
		return r.Subresource == "" && !(core && r.Resource.Resource == "namespaces")
	case admission.Update:
		switch {
		case !core:
			return false
		case r.Resource.Resource == "pods" && r.Subresource == "":
			now, isPod := r.Object.(*corev1.Pod)
			old, wasPod := r.OldObject.(*corev1.Pod)
			return isPod && wasPod && usage.Terminating(now) != usage.Terminating(old) // into another quota
		case r.Resource.Resource == "pods":
			return r.Subresource == "resize"
		}
		return r.Subresource == "" && (r.Resource.Resource == "services" || r.Resource.Resource == "persistentvolumeclaims")
	}
	return false
}

// quotas are the newest known quotas of a namespace, by name.
func (p *Plugin) quotas(ctx context.Context, namespace string) ([]*corev1.ResourceQuota, error) {
	quotas := slices.Collect(p.config.ByNamespace.Get(namespace))
	copied := len(quotas) > 0
	if !copied {
		found, err := p.lookups.Get(ctx, namespace, p.config.Lookup)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		quotas = slices.Clone(found)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if written := p.written[namespace]; len(written) > 0 {
		kept := map[string]*corev1.ResourceQuota{}
		for i, q := range quotas {
			if w, ok := written[q.Name]; ok && newer(w, q) {
				quotas[i], kept[q.Name] = w, w
			}
		}
		if p.written[namespace] = kept; len(kept) == 0 {
			delete(p.written, namespace)
		}
	}
	slices.SortFunc(quotas, func(a, b *corev1.ResourceQuota) int { return strings.Compare(a.Name, b.Name) })
	return quotas, nil
}

// mostWritten is how many namespaces are remembered in written. To forget one
// costs a write that is refused.
const mostWritten = 10_000

// remember keeps q, which was written or read just now.
func (p *Plugin) remember(q *corev1.ResourceQuota) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.written) >= mostWritten {
		clear(p.written)
	}
	if p.written[q.Namespace] == nil {
		p.written[q.Namespace] = map[string]*corev1.ResourceQuota{}
	}
	p.written[q.Namespace][q.Name] = q
}

// newer reports whether a is of a later revision than b. Revisions are decimal
// numbers without leading zeros
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions).
func newer(a, b *corev1.ResourceQuota) bool {
	x, y := a.ResourceVersion, b.ResourceVersion
	return len(x) > len(y) || len(x) == len(y) && x > y
}
