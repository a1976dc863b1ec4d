// Package resourcequota enforces the quotas of namespaces: the ResourceQuota plugin of Kubernetes
// (https://kubernetes.io/docs/concepts/policy/resource-quotas/).
//
//	quotas, err := resourcequota.New(resourcequota.Config{ByNamespace: index, Lookup: list, Writer: client})
//	chain := admission.Chain{Validators: []admission.Validator{..., quotas}}
//
// It should be last: what it admits is charged to the quotas. If a later plugin refuses the
// request, the charge stays until a controller recounts.
//
// # Model
//
// The status of a quota contains its usage. An object is admitted after its usage was added there,
// by a write that fails if the quota has changed since it was read. So any number of servers with
// one store together never exceed the limit. Requests of one namespace that arrive during such a
// write wait, and the next write charges all of them.
//
// An update is charged for what it adds; one that adds nothing always passes. The plugin itself
// reduces usage only if another quota refuses a request that was already charged. Otherwise the
// controller in reconcile/controllers does, when objects are deleted or have ended, and when an
// object that was charged was not created. A dry run is decided normally and charges nothing.
//
// A quota applies once the controller has filled its status.
//
// # Staleness and failures
//
// Quotas are read from a cache. If it has none for a namespace, they are looked up, at most once in
// half a minute. A stale cache never causes a refusal: before a quota counts as exceeded, it is
// read from the store. If a quota cannot be written, the request fails with 500.
//
// # Not included
//
// Resources that are limited without a quota by configuration, resource claims, and
// charges for changes of a claim's status.
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

// Limits of Kubernetes' plugin.
const (
	remembered = 30 * time.Second // how long a lookup is cached
	patience   = 10 * time.Second // how long charging one batch of requests may take
)

// Config configures the plugin. All fields are required.
type Config struct {
	// ByNamespace is an index of quotas by namespace.
	ByNamespace localcache.Index[string, *corev1.ResourceQuota]
	// Lookup reads the quotas of a namespace from the store.
	Lookup func(ctx context.Context, namespace string) ([]*corev1.ResourceQuota, error)
	// Writer reads a quota from the store, and writes its status, guarded by the resource version.
	// Its requests must not pass this plugin.
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
	// written holds the quotas, by namespace and name, as this plugin last wrote or read them,
	// until the cache has caught up. mu guards it.
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

// Validate refuses a request that exceeds a quota, and charges others.
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

// concerns reports whether r can change the usage of its namespace.
func concerns(r *admission.Request) bool {
	if r.Namespace == "" || r.Object == nil || usage.Ignored(schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}) {
		return false
	}
	core := r.Resource.Group == corev1.GroupName
	switch r.Operation {
	case admission.Create:
		// The create of a namespace carries the namespace's own name.
		return r.Subresource == "" && !(core && r.Resource.Resource == "namespaces")
	case admission.Update:
		switch {
		case !core:
			return false
		case r.Resource.Resource == "pods" && r.Subresource == "":
			now, isPod := r.Object.(*corev1.Pod)
			old, wasPod := r.OldObject.(*corev1.Pod)
			return isPod && wasPod && usage.Terminating(now) != usage.Terminating(old) // it moves to another quota
		case r.Resource.Resource == "pods":
			return r.Subresource == "resize"
		}
		return r.Subresource == "" && (r.Resource.Resource == "services" || r.Resource.Resource == "persistentvolumeclaims")
	}
	return false
}

// quotas returns the newest known quotas of a namespace, by name.
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

// mostWritten is the number of namespaces in written. Evicting one costs a failed write.
const mostWritten = 10_000

// remember stores q, which was just written or read.
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

// newer reports whether a has a later revision than b. Revisions are decimal numbers without
// leading zeros (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions).
func newer(a, b *corev1.ResourceQuota) bool {
	x, y := a.ResourceVersion, b.ResourceVersion
	return len(x) > len(y) || len(x) == len(y) && x > y
}
