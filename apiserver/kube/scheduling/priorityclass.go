package scheduling

import (
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
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

// SystemPriorityClasses returns the classes that every cluster begins with.
func SystemPriorityClasses() []*schedulingv1.PriorityClass {
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

// PriorityClasses returns the resource of the kind PriorityClass.
func PriorityClasses() apiserver.Resource {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	r := apiserver.For(kinds.PriorityClasses, apiserver.Resource{
		Strategy: define.Strategy[*schedulingv1.PriorityClass]{
			Default:        completePriorityClass,
			Create:         func(c *schedulingv1.PriorityClass) { c.Generation = 1 },
			Validate:       validatePriorityClass,
			ValidateUpdate: validatePriorityClassUpdate,
		}.Erase(),
		Columns: []apiserver.Column{
			column.Number("Value", doc["value"], func(c *schedulingv1.PriorityClass) int64 { return int64(c.Value) }),
			{
				Name:        "Global-Default",
				Type:        "boolean",
				Description: doc["globalDefault"],
				Value:       func(obj runtime.Object) any { return obj.(*schedulingv1.PriorityClass).GlobalDefault },
			},
			column.Age[*schedulingv1.PriorityClass](),
			column.Text("PreemptionPolicy", doc["preemptionPolicy"],
				func(c *schedulingv1.PriorityClass) string { return string(optional.Deref(c.PreemptionPolicy)) }),
		},
	})
	return r
}

func completePriorityClass(c *schedulingv1.PriorityClass) {
	optional.SetIfNil(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
}

func validatePriorityClass(c *schedulingv1.PriorityClass) field.ErrorList {
	var ps check.Problems
	if strings.HasPrefix(c.Name, systemPriorityPrefix) {
		if err := knownSystemClass(c); err != nil {
			ps.Add(field.Forbidden(field.NewPath("metadata", "name"), "priority class names with '"+systemPriorityPrefix+
				"' prefix are reserved for system use only. error: "+err.Error()))
		}
	} else {
		ps.Allowed(c.Value <= maxUserPriority, field.NewPath("value"),
			fmt.Sprintf("maximum allowed value of a user defined priority is %v", maxUserPriority))
	}
	if c.PreemptionPolicy != nil {
		check.RequiredOneOf(&ps, field.NewPath("preemptionPolicy"), *c.PreemptionPolicy, podspec.PreemptionPolicies...)
	}
	return ps.List
}

// knownSystemClass returns an error if c is not one of the system's classes.
func knownSystemClass(c *schedulingv1.PriorityClass) error {
	for _, known := range SystemPriorityClasses() {
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
	var ps check.Problems
	ps.Allowed(c.Value == old.Value, field.NewPath("value"), "may not be changed in an update.")
	ps.Immutable(field.NewPath("preemptionPolicy"), c.PreemptionPolicy, old.PreemptionPolicy)
	return ps.List
}
