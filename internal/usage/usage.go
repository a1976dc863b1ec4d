// Package usage computes the usage of objects for Kubernetes' quotas
// (https://kubernetes.io/docs/concepts/policy/resource-quotas/).
//
//	kind := usage.For(schema.GroupResource{Resource: "pods"})
//	charge, err := kind.Charge(&quota.Spec, quota.Status.Hard, pod, time.Now())
//
// The admission plugin and the controller that recounts must agree exactly, so both use this
// package. Every function is a pure function of objects, which it does not change. Returned lists
// belong to the caller.
package usage

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// Kind computes the usage of objects of one resource.
type Kind struct {
	// names are the names under which objects count; more reports further ones.
	names []corev1.ResourceName
	more  func(corev1.ResourceName) bool
	// of returns the usage of an object; nil means one object for each of names.
	of func(object any, now time.Time) (corev1.ResourceList, error)
	// in reports whether an object is in a scope. If it is nil, objects are in no scope.
	in func(scope corev1.ScopedResourceSelectorRequirement, object any) (bool, error)
}

// For returns the Kind of a resource. Every resource has one: by default an object counts as
// count/<resource>.<group>.
func For(r schema.GroupResource) Kind {
	count := corev1.ResourceName("count/" + r.String())
	if r.Group != corev1.GroupName {
		return Kind{names: []corev1.ResourceName{count}}
	}
	switch name := corev1.ResourceName(r.Resource); name {
	case "pods":
		return Kind{names: podNames, more: podName, of: ofPod, in: podIn}
	case "services":
		return Kind{names: serviceNames, of: ofService}
	case "persistentvolumeclaims":
		return Kind{names: claimNames, more: classed, of: ofClaim, in: claimIn}
	case corev1.ResourceConfigMaps, corev1.ResourceSecrets, corev1.ResourceQuotas, corev1.ResourceReplicationControllers:
		return Kind{names: []corev1.ResourceName{count, name}}
	}
	return Kind{names: []corev1.ResourceName{count}}
}

// Ignored reports whether objects of a resource never count: those that are not stored, and events.
func Ignored(r schema.GroupResource) bool {
	switch r.Group {
	case corev1.GroupName:
		return r.Resource == "bindings" || r.Resource == "componentstatuses" || r.Resource == "events"
	case "events.k8s.io":
		return r.Resource == "events"
	case "authentication.k8s.io":
		return r.Resource == "tokenreviews" || r.Resource == "selfsubjectreviews"
	case "authorization.k8s.io":
		return true
	}
	return false
}

// Counts reports whether objects of the kind can count as name.
func (k Kind) Counts(name corev1.ResourceName) bool {
	return slices.Contains(k.names, name) || k.more != nil && k.more(name)
}

// Touches reports whether objects of the kind can count as anything in hard.
func (k Kind) Touches(hard corev1.ResourceList) bool {
	for name := range hard {
		if k.Counts(name) {
			return true
		}
	}
	return false
}

// Of returns the whole usage of object.
func (k Kind) Of(object any, now time.Time) (corev1.ResourceList, error) {
	if k.of != nil {
		return k.of(object, now)
	}
	list := corev1.ResourceList{}
	for _, name := range k.names {
		list[name] = one()
	}
	return list, nil
}

// In reports whether object is in all scopes of a quota.
func (k Kind) In(spec *corev1.ResourceQuotaSpec, object any) (bool, error) {
	for _, scope := range spec.Scopes {
		if ok, err := k.inScope(corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}, object); !ok || err != nil {
			return false, err
		}
	}
	if spec.ScopeSelector == nil {
		return true, nil
	}
	for _, scope := range spec.ScopeSelector.MatchExpressions {
		if ok, err := k.inScope(scope, object); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (k Kind) inScope(scope corev1.ScopedResourceSelectorRequirement, object any) (bool, error) {
	if k.in == nil {
		return false, nil
	}
	return k.in(scope, object)
}

// Charge returns the usage of object for a quota that has spec and limits the names in hard. It is
// empty if the quota does not apply to object.
func (k Kind) Charge(spec *corev1.ResourceQuotaSpec, hard corev1.ResourceList, object any, now time.Time) (corev1.ResourceList, error) {
	if !k.Touches(hard) {
		return nil, nil
	}
	if ok, err := k.In(spec, object); !ok || err != nil {
		return nil, err
	}
	all, err := k.Of(object, now)
	if err != nil {
		return nil, err
	}
	return Mask(all, hard), nil
}

// selects applies a scope's operator to the one value of an object; an empty value means that the
// object has none.
func selects(scope corev1.ScopedResourceSelectorRequirement, value string) (bool, error) {
	operator, ok := map[corev1.ScopeSelectorOperator]selection.Operator{
		corev1.ScopeSelectorOpIn:           selection.In,
		corev1.ScopeSelectorOpNotIn:        selection.NotIn,
		corev1.ScopeSelectorOpExists:       selection.Exists,
		corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}[scope.Operator]
	if !ok {
		return false, fmt.Errorf("%q is not a valid scope selector operator", scope.Operator)
	}
	requirement, err := labels.NewRequirement(string(scope.ScopeName), operator, scope.Values)
	if err != nil {
		return false, err
	}
	set := labels.Set{}
	if value != "" {
		set[string(scope.ScopeName)] = value
	}
	return requirement.Matches(set), nil
}

func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }
