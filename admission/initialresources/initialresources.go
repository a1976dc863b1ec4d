// Package initialresources sets the resource requests of containers from the past usage of their
// images: the InitialResources plugin of Kubernetes 1.2 to 1.8
// (https://github.com/kubernetes/design-proposals-archive/blob/main/autoscaling/initial-resources.md).
//
//	plugin, err := initialresources.New(initialresources.Config{Source: usage})
//	chain := admission.Chain{Mutators: []admission.Mutator{plugin}}
//
// A container of a new pod with neither a request nor a limit for cpu or memory gets a request: a
// percentile, by default the 90th, of the usage
//
//  1. by the same image in the same namespace in the last 7 days,
//  2. or in the last 30 days,
//  3. by the same image anywhere in 7 days,
//  4. or in 30 days,
//  5. by other tags of the image anywhere in 30 days;
//
// The first of these with 30 samples is used, or else the last with any. With NamespaceOnly, only
// usage in the same namespace counts, and the last is about other tags in 30 days. The annotation
// [Annotation] lists what was set. Init containers that keep running (sidecars) are estimated too;
// other init containers and ephemeral containers are not.
//
// Requests are never estimated above a limit: if the container, or the pod as a whole, has a
// request or limit for a resource, nothing is added. To respect the defaults of a LimitRange, place
// the plugin after LimitRanger.
//
// The plugin never refuses a pod: if the source fails, the pod passes without an estimate, and the
// failure is logged. Package usagering is a source.
package initialresources

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "InitialResources"

// Annotation is set on pods with estimated requests.
const Annotation = "kubernetes.io/initial-resources"

// DefaultPercentile is the default percentile of the usage.
const DefaultPercentile = 90

// Config configures the plugin. Source is required.
type Config struct {
	Source UsageSource
	// Percentile is the percentile of past usage to request, 1 to 100. Zero means
	// [DefaultPercentile].
	Percentile int
	// NamespaceOnly ignores usage in other namespaces.
	NamespaceOnly bool
	// Log receives failures of the source. The zero Logger discards them.
	Log logr.Logger
}

// Plugin is an [admission.Mutator].
type Plugin struct {
	config Config
}

// New returns the plugin.
func New(c Config) (*Plugin, error) {
	if c.Source == nil {
		return nil, errors.New("initialresources: Source must be set")
	}
	if c.Percentile == 0 {
		c.Percentile = DefaultPercentile
	}
	if c.Percentile < 1 || c.Percentile > 100 {
		return nil, fmt.Errorf("initialresources: there is no percentile %d", c.Percentile)
	}
	return &Plugin{config: c}, nil
}

// Mutate estimates the missing requests of a new pod.
func (p *Plugin) Mutate(ctx context.Context, r *admission.Request) error {
	pod, ok := podspec.Of(r)
	if !ok || r.Operation != admission.Create {
		return nil
	}
	var told []string
	for place, c := range podspec.Containers(&pod.Spec) {
		if !runsOn(place, c) {
			continue
		}
		if set := p.estimate(ctx, r, pod, c); len(set) > 0 {
			told = append(told, strings.Join(set, ", ")+" request for container "+c.Name)
		}
	}
	if len(told) > 0 {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, Annotation, "Initial Resources plugin set: "+strings.Join(told, "; "))
	}
	return nil
}

// runsOn reports whether a container runs as long as its pod and may have resources.
func runsOn(at podspec.Place, c *corev1.Container) bool {
	switch at.List {
	case "containers":
		return true
	case "initContainers":
		return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	return false
}

// estimate sets the missing requests of c, and returns their names.
func (p *Plugin) estimate(ctx context.Context, r *admission.Request, pod *corev1.Pod, c *corev1.Container) (set []string) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if says(&c.Resources, name) || says(pod.Spec.Resources, name) {
			continue
		}
		quantity, err := p.used(ctx, name, c.Image, r.Namespace)
		if err != nil {
			p.config.Log.Error(err, "cannot estimate", "resource", name, "pod", r.Namespace+"/"+r.Called(), "container", c.Name)
			continue
		}
		if quantity == nil {
			continue
		}
		if c.Resources.Requests == nil {
			c.Resources.Requests = corev1.ResourceList{}
		}
		c.Resources.Requests[name] = *quantity
		set = append(set, string(name))
	}
	return set
}

func says(r *corev1.ResourceRequirements, name corev1.ResourceName) bool {
	if r == nil {
		return false
	}
	_, requested := r.Requests[name]
	_, limited := r.Limits[name]
	return requested || limited
}

// quantity converts usage to the form of requests.
func quantity(name corev1.ResourceName, usage int64) *resource.Quantity {
	if name == corev1.ResourceCPU {
		return resource.NewMilliQuantity(usage, resource.DecimalSI)
	}
	return resource.NewQuantity(usage, resource.DecimalSI)
}
