// Package lifecycle refuses objects in missing or terminating namespaces: the NamespaceLifecycle
// plugin of Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#namespacelifecycle).
//
//	namespaces, err := lifecycle.New(lifecycle.Config{Namespaces: informer, Lookup: get})
//	chain := admission.Chain{Mutators: []admission.Mutator{namespaces, ...}}
//
// A create or update in a missing namespace is refused with 404. A create in a terminating
// namespace is refused with 403 and the cause NamespaceTerminating. The deletion of default,
// kube-system or kube-public is refused with 403. Other deletions pass.
//
// It changes nothing, but it is a mutator and should be first, so that the client learns about the
// missing namespace and not about a consequence of it.
//
// The cache may be stale. A namespace that is not in the cache is looked up. For half a minute
// after this plugin has admitted the deletion of a namespace, it is looked up as well. If a lookup
// fails, the request fails with its error.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// distrust is how long the cache is not used for a namespace whose deletion was admitted. It is
// Kubernetes' value.
const distrust = 30 * time.Second

// Config configures the plugin. Both fields are required.
type Config struct {
	// Namespaces is the cache of namespaces.
	Namespaces localcache.Getter[*corev1.Namespace]
	// Lookup reads a namespace from the store. It fails with a NotFound API error if there is none.
	Lookup func(ctx context.Context, name string) (*corev1.Namespace, error)
}

// Plugin is an [admission.Mutator].
type Plugin struct {
	config Config

	mu      sync.Mutex
	deleted map[string]time.Time // when the deletion of a namespace was admitted
}

var immortal = sets.New(metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic)

// reviews is the group of access reviews. They are allowed in a missing namespace, to learn what
// would be allowed there.
const reviews = "authorization.k8s.io"

// New returns the plugin.
func New(c Config) (*Plugin, error) {
	if c.Namespaces == nil || c.Lookup == nil {
		return nil, errors.New("lifecycle: Namespaces and Lookup must be set")
	}
	return &Plugin{config: c, deleted: make(map[string]time.Time)}, nil
}

// Mutate refuses forbidden operations in or on a namespace.
func (p *Plugin) Mutate(ctx context.Context, r *admission.Request) error {
	if r.Resource.Group == corev1.GroupName && r.Resource.Resource == "namespaces" {
		return p.admitNamespace(r)
	}
	if r.Namespace == "" || r.Resource.Group == reviews {
		return nil
	}
	if r.Operation != admission.Create && r.Operation != admission.Update {
		return nil
	}
	namespace, err := p.find(ctx, r.Namespace)
	if err != nil {
		return err
	}
	if r.Operation == admission.Create && namespace.Status.Phase == corev1.NamespaceTerminating {
		return terminating(r)
	}
	return nil
}

func (p *Plugin) admitNamespace(r *admission.Request) error {
	if r.Operation != admission.Delete {
		return nil
	}
	if immortal.Has(r.Name) {
		return admission.Forbidden(r, errors.New("this namespace may not be deleted"))
	}
	if !r.DryRun {
		p.remember(r.Name)
	}
	return nil
}

func (p *Plugin) find(ctx context.Context, name string) (*corev1.Namespace, error) {
	if !p.doubted(name) {
		if n, ok := p.config.Namespaces.Get(name); ok {
			return n, nil
		}
	}
	n, err := p.config.Lookup(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return n, err
}

func (p *Plugin) remember(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, at := range p.deleted {
		if time.Since(at) >= distrust {
			delete(p.deleted, n)
		}
	}
	p.deleted[name] = time.Now()
}

func (p *Plugin) doubted(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.deleted[name]
	return ok && time.Since(at) < distrust
}

func terminating(r *admission.Request) error {
	resource := schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
	err := apierrors.NewForbidden(resource, r.Called(), fmt.Errorf(
		"unable to create new content in namespace %s because it is being terminated", r.Namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", r.Namespace),
		Field:   "metadata.namespace",
	})
	return err
}
