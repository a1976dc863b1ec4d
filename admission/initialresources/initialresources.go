// Package initialresources requests for a container what its image used before:
// the InitialResources plugin, as Kubernetes 1.2 to 1.8 had it
// (https://github.com/kubernetes/design-proposals-archive/blob/main/autoscaling/initial-resources.md).
//
//	plugin, err := initialresources.New(initialresources.Config{Source: usage})
//	chain := admission.Chain{Mutators: []admission.Mutator{plugin}}
//
// A container of a new pod that sets neither a request nor a limit of cpu or memory
// gets a request: a percentile, by default the 90th, of what was used
//
//  1. by the same image in the same namespace in the last 7 days,
//  2. or in the last 30 days,
//  3. by the same image anywhere in 7 days,
//  4. or in 30 days,
//  5. by other tags of the image anywhere in 30 days;
//
// the first of these with 30 samples decides, and the last with any. With
// NamespaceOnly, the last is about other tags in the same namespace in 30 days, and
// what happens elsewhere counts nowhere. The annotation [Annotation] tells what was
// set. Sidecars, the init containers that keep running, are estimated too; other
// init containers and ephemeral ones are not.
//
// No request is estimated above a limit: where the container, or the pod as a whole,
// says anything of a resource, nothing is added. So that this holds for the defaults
// of a LimitRange too, the plugin should stand after LimitRanger.
//
// An estimate is a help and never a reason to refuse: when the source fails the pod
// passes without one, and the failure is logged. Package usagering below this one is
// a source.
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

// Name is what the plugin is called in --enable-admission-plugins.
const Name = "InitialResources"

// Annotation is set on pods for which something was estimated.
const Annotation = "kubernetes.io/initial-resources"

// DefaultPercentile is the percentile of usage that is requested.
const DefaultPercentile = 90

// Config says where usage is known from. Source must be set.
type Config struct {
	Source UsageSource
	// Percentile of past usage that is requested, 1 to 100. Zero is
	// [DefaultPercentile].
	Percentile int
	// NamespaceOnly leaves out what was used in other namespaces.
	NamespaceOnly bool
	// Log is told when the source fails. The zero Logger is silent.
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

// Mutate estimates what a new pod does not say.
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

// runsOn reports whether a container runs as long as its pod, and may have
// resources.
func runsOn(at podspec.Place, c *corev1.Container) bool {
	switch at.List {
	case "containers":
		return true
	case "initContainers":
		return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	return false
}

// estimate sets what c does not say, and returns the names of it.
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

// quantity writes usage as it is written in requests.
func quantity(name corev1.ResourceName, usage int64) *resource.Quantity {
	if name == corev1.ResourceCPU {
		return resource.NewMilliQuantity(usage, resource.DecimalSI)
	}
	return resource.NewQuantity(usage, resource.DecimalSI)
}
