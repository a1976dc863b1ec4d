// Package runtimeclass completes new pods from their RuntimeClass: the RuntimeClass plugin of
// Kubernetes (https://kubernetes.io/docs/concepts/containers/runtime-class/).
//
//	plugin, err := runtimeclass.New(runtimeclass.Config{Classes: informer, Lookup: get})
//	chain := admission.Chain{
//		Mutators:   []admission.Mutator{plugin},
//		Validators: []admission.Validator{plugin},
//	}
//
// A new pod gets the overhead of the class in spec.runtimeClassName, and the class's node selector
// and tolerations in addition to its own. A missing class, an overhead that differs from that of the
// class, and a node selector that contradicts that of the class are refused with 403. So is an
// overhead without a class that has one.
//
// The cache may be stale: a class that it does not have is looked up. A class that it has is not, so
// that a pod may get the overhead of an older version of the class.
package runtimeclass

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "RuntimeClass"

// Config configures the plugin. Both fields are required.
type Config struct {
	// Classes is the cache of runtime classes, by name.
	Classes localcache.Getter[*nodev1.RuntimeClass]
	// Lookup reads a class from the store. It fails with a NotFound API error if there is none.
	Lookup func(ctx context.Context, name string) (*nodev1.RuntimeClass, error)
}

// Plugin is an [admission.Mutator] and an [admission.Validator] of pods.
type Plugin struct {
	config Config
}

// New returns the plugin.
func New(c Config) (*Plugin, error) {
	if c.Classes == nil || c.Lookup == nil {
		return nil, errors.New("runtimeclass: Classes and Lookup must be set")
	}
	return &Plugin{config: c}, nil
}

// errOverhead says that a pod and its class disagree.
var errOverhead = errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")

// Mutate sets the overhead, node selector and tolerations of a new pod.
func (p *Plugin) Mutate(ctx context.Context, r *admission.Request) error {
	pod, class, err := p.newPod(ctx, r)
	if err != nil || class == nil {
		return err
	}
	if class.Overhead != nil {
		if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return admission.Forbidden(r, errOverhead)
		}
		pod.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling != nil {
		return schedule(r, &pod.Spec, class.Scheduling)
	}
	return nil
}

// Validate checks the overhead that a new pod has after all mutators.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	pod, class, err := p.newPod(ctx, r)
	switch {
	case err != nil || pod == nil:
		return err
	case class != nil && class.Overhead != nil:
		if !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return admission.Forbidden(r, errOverhead)
		}
	case pod.Spec.Overhead != nil:
		return admission.Forbidden(r, errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	}
	return nil
}

// newPod returns the pod that is created, and its class. The pod is nil for other requests, the class
// for pods without one.
func (p *Plugin) newPod(ctx context.Context, r *admission.Request) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	pod, ok := podspec.Of(r)
	switch {
	case !ok || r.Operation != admission.Create:
		return nil, nil, nil
	case pod.Spec.RuntimeClassName == nil:
		return pod, nil, nil
	}
	name := *pod.Spec.RuntimeClassName
	if class, ok := p.config.Classes.Get(name); ok {
		return pod, class, nil
	}
	class, err := p.config.Lookup(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, nil, admission.Forbidden(r, fmt.Errorf("pod rejected: RuntimeClass %q not found", name))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("get RuntimeClass %q: %w", name, err)
	}
	return pod, class, nil
}

// schedule adds the class's constraints to those of a pod.
func schedule(r *admission.Request, spec *corev1.PodSpec, class *nodev1.Scheduling) error {
	for key, value := range class.NodeSelector {
		if has, ok := spec.NodeSelector[key]; ok && has != value {
			return admission.Forbidden(r, fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s",
				key, value, key, has))
		}
	}
	if spec.NodeSelector == nil {
		spec.NodeSelector = maps.Clone(class.NodeSelector)
	} else {
		maps.Copy(spec.NodeSelector, class.NodeSelector)
	}
	spec.Tolerations = merge(spec.Tolerations, class.Tolerations)
	return nil
}
