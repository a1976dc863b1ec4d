// Package priority sets the priority of pods from their class: the Priority plugin of Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#priority).
//
//	plugin, err := priority.New(priority.Config{Classes: informer, Lookup: get})
//	chain := admission.Chain{
//		Mutators:   []admission.Mutator{plugin},
//		Validators: []admission.Validator{plugin},
//	}
//
// A new pod gets spec.priority and spec.preemptionPolicy of the class in spec.priorityClassName, or
// else of the globalDefault class, or else zero and PreemptLowerPriority. A missing class, and a
// priority or policy that differs from that of the class, is refused with 403. An update that omits
// the two keeps them. A second globalDefault class is refused with 403.
//
// The cache may be stale: a class that it does not have is looked up. Two classes that become the
// default at the same time may both stay; pods then get the lower one on every server.
package priority

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "Priority"

// Config configures the plugin. Both fields are required.
type Config struct {
	// Classes is the cache of priority classes, by name.
	Classes localcache.Reader[*schedulingv1.PriorityClass]
	// Lookup reads a class from the store. It fails with a NotFound API error if there is none.
	Lookup func(ctx context.Context, name string) (*schedulingv1.PriorityClass, error)
}

// Plugin is an [admission.Mutator] of pods and an [admission.Validator] of classes.
type Plugin struct {
	config Config
}

// New returns the plugin.
func New(c Config) (*Plugin, error) {
	if c.Classes == nil || c.Lookup == nil {
		return nil, errors.New("priority: Classes and Lookup must be set")
	}
	return &Plugin{config: c}, nil
}

// Mutate sets the priority of a pod from its class.
func (p *Plugin) Mutate(ctx context.Context, r *admission.Request) error {
	pod, ok := podspec.Of(r)
	switch {
	case !ok:
		return nil
	case r.Operation == admission.Update:
		keep(pod, r.OldObject)
		return nil
	}
	class, err := p.classOf(ctx, r, &pod.Spec)
	if err != nil {
		return err
	}
	return set(r, &pod.Spec, class)
}

// keep restores the fields that an update omits. The validation of pods refuses to change them.
func keep(pod *corev1.Pod, was any) {
	old, ok := was.(*corev1.Pod)
	if !ok {
		return
	}
	if pod.Spec.Priority == nil && old.Spec.Priority != nil {
		value := *old.Spec.Priority
		pod.Spec.Priority = &value
	}
	if pod.Spec.PreemptionPolicy == nil && old.Spec.PreemptionPolicy != nil {
		policy := *old.Spec.PreemptionPolicy
		pod.Spec.PreemptionPolicy = &policy
	}
}

// none is the class of pods without a class.
var none = func() *schedulingv1.PriorityClass {
	policy := corev1.PreemptLowerPriority
	return &schedulingv1.PriorityClass{PreemptionPolicy: &policy}
}()

func (p *Plugin) classOf(ctx context.Context, r *admission.Request, spec *corev1.PodSpec) (*schedulingv1.PriorityClass, error) {
	name := spec.PriorityClassName
	if name == "" {
		if class := p.globalDefault(); class != nil {
			return class, nil
		}
		return none, nil
	}
	if class, ok := p.config.Classes.Get(name); ok {
		return class, nil
	}
	class, err := p.config.Lookup(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, admission.Forbidden(r, fmt.Errorf("no PriorityClass with name %v was found", name))
	}
	if err != nil {
		return nil, fmt.Errorf("failed to resolve PriorityClass with name %s: %w", name, err)
	}
	return class, nil
}

// globalDefault returns the default class, the lowest if there are several; nil if there is none.
func (p *Plugin) globalDefault() *schedulingv1.PriorityClass {
	var lowest *schedulingv1.PriorityClass
	for class := range p.config.Classes.All() {
		if !class.GlobalDefault {
			continue
		}
		if lowest == nil || class.Value < lowest.Value || class.Value == lowest.Value && class.Name < lowest.Name {
			lowest = class
		}
	}
	return lowest
}

// set sets the fields of a new pod from its class, and refuses contradictions.
func set(r *admission.Request, spec *corev1.PodSpec, class *schedulingv1.PriorityClass) error {
	spec.PriorityClassName = class.Name
	if has := spec.Priority; has != nil && *has != class.Value {
		return admission.Forbidden(r, fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; "+
			"priority admission controller computed %d from the given PriorityClass name", *has, class.Value))
	}
	value := class.Value
	spec.Priority = &value
	if class.PreemptionPolicy == nil {
		return nil
	}
	policy := *class.PreemptionPolicy
	if has := spec.PreemptionPolicy; has != nil && *has != policy {
		return admission.Forbidden(r, fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; "+
			"priority admission controller computed %s from the given PriorityClass name", *has, policy))
	}
	spec.PreemptionPolicy = &policy
	return nil
}

// Validate refuses a second default class.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	if r.Resource.Group != schedulingv1.GroupName || r.Resource.Resource != "priorityclasses" || r.Subresource != "" ||
		r.Operation != admission.Create && r.Operation != admission.Update {
		return nil
	}
	class, ok := r.Object.(*schedulingv1.PriorityClass)
	if !ok || !class.GlobalDefault {
		return nil
	}
	for other := range p.config.Classes.All() {
		if other.GlobalDefault && (r.Operation == admission.Create || other.Name != class.Name) {
			return admission.Forbidden(r, fmt.Errorf(
				"PriorityClass %v is already marked as default. Only one default can exist", other.Name))
		}
	}
	return nil
}
