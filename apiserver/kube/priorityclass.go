package kube

import (
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Names and values above the users' own are the system's
// (https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/#priorityclass).
const (
	systemPriorityPrefix = "system-"
	maxUserPriority      = 1_000_000_000
)

// PriorityClasses returns the classes every cluster begins with.
func PriorityClasses() []*schedulingv1.PriorityClass {
	class := func(name string, value int32, description string) *schedulingv1.PriorityClass {
		c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, Description: description}
		c.Generation = 1
		completePriorityClass(c)
		return c
	}
	return []*schedulingv1.PriorityClass{
		class("system-node-critical", 2*maxUserPriority+1000,
			"Used for system critical pods that must not be moved from their current node."),
		class("system-cluster-critical", 2*maxUserPriority,
			"Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	}
}

func priorityClasses() apiserver.Resource {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	r := apiserver.Resource{
		Group:      schedulingv1.GroupName,
		Version:    "v1",
		Kind:       "PriorityClass",
		Plural:     "priorityclasses",
		ShortNames: []string{"pc"},
		New:        func() runtime.Object { return &schedulingv1.PriorityClass{} },
		NewList:    func() runtime.Object { return &schedulingv1.PriorityClassList{} },
		Strategy: strategy[*schedulingv1.PriorityClass]{
			complete:       completePriorityClass,
			create:         func(c *schedulingv1.PriorityClass) { c.Generation = 1 },
			validate:       validatePriorityClass,
			validateUpdate: validatePriorityClassUpdate,
		}.erase(),
		Columns: []apiserver.Column{
			number("Value", doc["value"], func(c *schedulingv1.PriorityClass) int64 { return int64(c.Value) }),
			{
				Name:        "Global-Default",
				Type:        "boolean",
				Description: doc["globalDefault"],
				Value:       func(obj runtime.Object) any { return obj.(*schedulingv1.PriorityClass).GlobalDefault },
			},
			age[*schedulingv1.PriorityClass](),
			text("PreemptionPolicy", doc["preemptionPolicy"],
				func(c *schedulingv1.PriorityClass) string { return string(deref(c.PreemptionPolicy)) }),
		},
	}
	return r
}

func completePriorityClass(c *schedulingv1.PriorityClass) {
	setIfNil(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
}

func validatePriorityClass(c *schedulingv1.PriorityClass) field.ErrorList {
	var ps problems
	if strings.HasPrefix(c.Name, systemPriorityPrefix) {
		if err := knownSystemClass(c); err != nil {
			ps.add(field.Forbidden(field.NewPath("metadata", "name"), "priority class names with '"+systemPriorityPrefix+
				"' prefix are reserved for system use only. error: "+err.Error()))
		}
	} else {
		ps.allowed(c.Value <= maxUserPriority, field.NewPath("value"),
			fmt.Sprintf("maximum allowed value of a user defined priority is %v", maxUserPriority))
	}
	if c.PreemptionPolicy != nil {
		someOf(&ps, field.NewPath("preemptionPolicy"), *c.PreemptionPolicy, preemptionPolicies...)
	}
	return ps.list
}

// knownSystemClass says why c is none of the classes of the system.
func knownSystemClass(c *schedulingv1.PriorityClass) error {
	for _, known := range PriorityClasses() {
		switch {
		case known.Name != c.Name:
		case known.Value != c.Value:
			return fmt.Errorf("value of %v PriorityClass must be %v", known.Name, known.Value)
		case known.GlobalDefault != c.GlobalDefault:
			return fmt.Errorf("globalDefault of %v PriorityClass must be %v", known.Name, known.GlobalDefault)
		default:
			return nil
		}
	}
	return fmt.Errorf("%v is not a known system priority class", c.Name)
}

func validatePriorityClassUpdate(c, old *schedulingv1.PriorityClass) field.ErrorList {
	var ps problems
	ps.allowed(c.Value == old.Value, field.NewPath("value"), "may not be changed in an update.")
	ps.immutable(field.NewPath("preemptionPolicy"), c.PreemptionPolicy, old.PreemptionPolicy)
	return ps.list
}
