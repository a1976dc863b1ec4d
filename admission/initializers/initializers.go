// Package initializers tells which initializers a new object waits for: the
// Initializers plugin of Kubernetes 1.7 to 1.13
// (https://github.com/kubernetes/design-proposals-archive/blob/main/api-machinery/admission_control_extension.md).
//
//	plugin, err := initializers.New(initializers.Config{Configurations: informer})
//	server, err := apiserver.New(apiserver.Config{Initializers: plugin, ...})
//	err = plugin.Run(ctx)
//
// An [InitializerConfiguration] names initializers and the resources that they
// are for. A new object of such a resource waits for them, in the order of the
// configurations' names and then of their lists, each once. Until then it is
// there only for those who ask for uninitialized objects, which is the API
// server's work, as is who may act on them (verb initialize). Mirror pods, which
// run already, and InitializerConfigurations themselves wait for nobody.
//
// The local copy may be old: an object that is created right after a
// configuration may escape it. Until Run has the copy creates wait, and after five
// seconds fail with 504 and the reason LoadingConfiguration, since nobody knows
// what they would escape. While there is no configuration the plugin costs one
// atomic load.
//
// Left out: rules about objects rather than resources; an initializer looks at the
// object and lets it pass.
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

// Config says where configurations are known from. Configurations must be set.
type Config struct {
	// Configurations is a local copy of all of them.
	Configurations localcache.ListSubscriber[*InitializerConfiguration]
}

// Plugin is what an API server asks about new objects.
type Plugin struct {
	config Config
	// current is every initializer in order; nil until it is known.
	current atomic.Pointer[[]Initializer]
	loaded  chan struct{} // closed when it is known
}

// patience is how long a create waits for the configurations to be known.
const patience = 5 * time.Second

// New returns the plugin. It starts nothing.
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
	var mu sync.Mutex // of changes: what is read last is stored last
	reload := func(_, _ *InitializerConfiguration) {
		mu.Lock()
		defer mu.Unlock()
		current := inOrder(p.config.Configurations.All())
		if p.current.Swap(&current) == nil {
			close(p.loaded)
		}
	}
	stop := p.config.Configurations.Subscribe(reload)
	defer stop()
	reload(nil, nil)
	<-ctx.Done()
	return nil
}

// inOrder returns the initializers of all configurations.
func inOrder(all iter.Seq[*InitializerConfiguration]) []Initializer {
	configurations := slices.SortedFunc(all, func(a, b *InitializerConfiguration) int { return cmp.Compare(a.Name, b.Name) })
	var out []Initializer
	for _, c := range configurations {
		out = append(out, c.Initializers...)
	}
	return out
}

// Pending returns the names of the initializers that the object of in, which is
// about to be created, waits for.
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

// loading is Kubernetes' refusal while it does not know the configurations.
func loading(in *admission.Request) error {
	err := apierrors.NewServerTimeout(schema.GroupResource{Group: in.Resource.Group, Resource: in.Resource.Resource}, "create", 1)
	err.ErrStatus.Message = "Waiting for initialization configuration to load: configuration is not ready"
	err.ErrStatus.Reason = "LoadingConfiguration"
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: "InitializerConfigurationPending", Message: "The server is waiting for the initializer configuration to be loaded.",
	})
	return err
}

// exempt reports objects that wait for nobody.
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
