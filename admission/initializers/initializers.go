// Package initializers determines which initializers a new object must wait for: the Initializers
// plugin of Kubernetes 1.7 to 1.13
// (https://github.com/kubernetes/design-proposals-archive/blob/main/api-machinery/admission_control_extension.md).
//
//	plugin, err := initializers.New(initializers.Config{Configurations: informer})
//	server, err := apiserver.New(apiserver.Config{Initializers: plugin, ...})
//	err = plugin.Run(ctx)
//
// An [InitializerConfiguration] lists initializers and their resources. A new object of such a
// resource waits for its initializers in the order of the configurations' names and their lists,
// once for each name. Until then it is visible only in requests that include uninitialized objects.
// The API server enforces this, and the verb initialize. Mirror pods, which run already, and
// InitializerConfigurations themselves do not wait.
//
// The cache may be stale: an object that is created right after a configuration may not wait for
// it. Before the cache has synced, creates wait, and after five seconds fail with 504 and the
// reason LoadingConfiguration. Without configurations, the plugin costs one atomic load.
//
// Not included: rules about objects instead of resources. An initializer checks the object itself.
package initializers

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Config configures the plugin. Configurations is required.
type Config struct {
	// Configurations is the cache of the configurations.
	Configurations localcache.ListSubscriber[*InitializerConfiguration]
}

// Plugin determines the initializers of new objects for an API server.
type Plugin struct {
	config Config
	// current holds all initializers in order; nil before the cache has synced.
	current atomic.Pointer[[]Initializer]
	loaded  chan struct{} // closed when current is set
}

// patience is how long a create waits for the cache to sync.
const patience = 5 * time.Second

// New returns the plugin. It starts no goroutine.
func New(c Config) (*Plugin, error) {
	if c.Configurations == nil {
		return nil, errors.New("initializers: Configurations must be set")
	}
	return &Plugin{config: c, loaded: make(chan struct{})}, nil
}

// Run follows the configurations until ctx is done.
func (p *Plugin) Run(ctx context.Context) error {
	select {
	case <-p.config.Configurations.Synced():
	case <-ctx.Done():
		return nil
	}
	var mu sync.Mutex // held while changes are applied, so that they are stored in order
	reload := func(_, _ *InitializerConfiguration) {
		mu.Lock()
		defer mu.Unlock()
		current := inOrder(p.config.Configurations.All())
		if p.current.Swap(&current) == nil {
			close(p.loaded)
		}
	}
	defer p.config.Configurations.Subscribe(reload).Stop()
	reload(nil, nil)
	<-ctx.Done()
	return nil
}

// inOrder returns the initializers of all configurations in order.
func inOrder(all iter.Seq[*InitializerConfiguration]) []Initializer {
	configurations := slices.SortedFunc(all, func(a, b *InitializerConfiguration) int { return cmp.Compare(a.Name, b.Name) })
	var out []Initializer
	for _, c := range configurations {
		out = append(out, c.Initializers...)
	}
	return out
}

// Pending returns the names of the initializers that the new object of in must wait for.
func (p *Plugin) Pending(ctx context.Context, in *admission.Request) ([]string, error) {
	current := p.current.Load()
	if current != nil && len(*current) == 0 || exempt(in) {
		return nil, nil
	}
	if current == nil {
		if err := p.load(ctx, in); err != nil {
			return nil, err
		}
		current = p.current.Load()
	}
	var names []string
	for _, one := range *current {
		if slices.ContainsFunc(one.Rules, func(r Rule) bool { return r.matches(in.Resource) }) && !slices.Contains(names, one.Name) {
			names = append(names, one.Name)
		}
	}
	return names, nil
}

// load waits until the configurations are known.
func (p *Plugin) load(ctx context.Context, in *admission.Request) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.loaded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return loading(in)
	}
}

// loading returns Kubernetes' error before the configurations are known.
func loading(in *admission.Request) error {
	err := apierrors.NewServerTimeout(schema.GroupResource{Group: in.Resource.Group, Resource: in.Resource.Resource}, "create", 1)
	err.ErrStatus.Message = "Waiting for initialization configuration to load: configuration is not ready"
	err.ErrStatus.Reason = "LoadingConfiguration"
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: "InitializerConfigurationPending", Message: "The server is waiting for the initializer configuration to be loaded.",
	})
	return err
}

// exempt reports whether an object does not wait for initializers.
func exempt(in *admission.Request) bool {
	switch {
	case in.Resource.Group == GroupName && in.Resource.Resource == "initializerconfigurations":
		return true
	case in.Resource.Group != "" || in.Resource.Resource != "pods":
		return false
	}
	m, err := meta.Accessor(in.Object)
	if err != nil {
		return false
	}
	_, mirror := m.GetAnnotations()[corev1.MirrorPodAnnotationKey]
	return mirror
}

func (r Rule) matches(resource admission.GroupVersionResource) bool {
	return has(r.APIGroups, resource.Group) && has(r.APIVersions, resource.Version) && has(r.Resources, resource.Resource)
}

func has(list []string, value string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}
