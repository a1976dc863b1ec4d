package policy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type nodeAffinityArgs struct {
	typeMeta      `json:",inline"`
	AddedAffinity *corev1.NodeAffinity `json:"addedAffinity"`
}

func (n *nodeAffinityArgs) apply(a *arguments, at *field.Path) (_ []idle, errs field.ErrorList) {
	if n.AddedAffinity == nil {
		return nil, nil
	}
	at = at.Child("addedAffinity")
	a.enforced, a.preferred = n.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution, n.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if a.enforced != nil {
		at := at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		for i := range a.enforced.NodeSelectorTerms {
			errs = append(errs, checkTerm(&a.enforced.NodeSelectorTerms[i], at.Index(i))...)
		}
	}
	for i := range a.preferred {
		at := at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		errs = append(errs, checkTerm(&a.preferred[i].Preference, at)...)
		errs = append(errs, checkRange(at.Child("weight"), int64(a.preferred[i].Weight), 0, 100)...)
	}
	return nil, errs
}

// operators has the operators of requirements on labels of nodes.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

func checkTerm(t *corev1.NodeSelectorTerm, at *field.Path) (errs field.ErrorList) {
	for i, r := range t.MatchExpressions {
		at := at.Child("matchExpressions").Index(i)
		operator, ok := operators[r.Operator]
		if !ok {
			errs = append(errs, field.NotSupported(at.Child("operator"), string(r.Operator),
				[]string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}))
		} else if _, err := labels.NewRequirement(r.Key, operator, r.Values); err != nil {
			errs = append(errs, field.Invalid(at, r.Key, err.Error()))
		}
	}
	for i, r := range t.MatchFields {
		at := at.Child("matchFields").Index(i)
		if r.Key != "metadata.name" {
			errs = append(errs, field.NotSupported(at.Child("key"), r.Key, []string{"metadata.name"}))
		}
		if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
			errs = append(errs, field.NotSupported(at.Child("operator"), string(r.Operator), []string{"In", "NotIn"}))
		}
		if len(r.Values) != 1 {
			errs = append(errs, field.Invalid(at.Child("values"), r.Values, "must have one element"))
		}
	}
	return errs
}

type spreadArgs struct {
	typeMeta           `json:",inline"`
	DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints"`
	DefaultingType     string                            `json:"defaultingType"`
}

func (s *spreadArgs) apply(a *arguments, at *field.Path) (idles []idle, errs field.ErrorList) {
	kind := at.Child("defaultingType")
	switch s.DefaultingType {
	case "List":
		a.constraints = append([]corev1.TopologySpreadConstraint{}, s.DefaultConstraints...) // not nil
	case "", "System":
		if len(s.DefaultConstraints) > 0 {
			errs = append(errs, field.Invalid(kind, "System", "when .defaultConstraints are not empty"))
		}
	default:
		errs = append(errs, field.NotSupported(kind, s.DefaultingType, []string{"System", "List"}))
	}
	for i := range s.DefaultConstraints {
		errs = append(errs, checkConstraint(s.DefaultConstraints, i, at.Child("defaultConstraints").Index(i))...)
		if len(s.DefaultConstraints[i].MatchLabelKeys) > 0 {
			idles = append(idles, idle{fmt.Sprintf("defaultConstraints[%d].matchLabelKeys", i), "the selector is that of the pod's workload"})
		}
	}
	return idles, errs
}

// checkConstraint checks one constraint of a list.
func checkConstraint(list []corev1.TopologySpreadConstraint, i int, at *field.Path) (errs field.ErrorList) {
	c := &list[i]
	if c.MaxSkew <= 0 {
		errs = append(errs, field.Invalid(at.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
	}
	if c.TopologyKey == "" {
		errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
	} else {
		errs = append(errs, metav1validation.ValidateLabelName(c.TopologyKey, at.Child("topologyKey"))...)
	}
	actions := []string{string(corev1.DoNotSchedule), string(corev1.ScheduleAnyway)}
	if action := string(c.WhenUnsatisfiable); action == "" {
		errs = append(errs, field.Required(at.Child("whenUnsatisfiable"), "can not be empty"))
	} else if !slices.Contains(actions, action) {
		errs = append(errs, field.NotSupported(at.Child("whenUnsatisfiable"), action, actions))
	}
	if c.LabelSelector != nil {
		errs = append(errs, field.Forbidden(at.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
	}
	policies := []string{string(corev1.NodeInclusionPolicyHonor), string(corev1.NodeInclusionPolicyIgnore)}
	for name, p := range map[string]*corev1.NodeInclusionPolicy{"nodeAffinityPolicy": c.NodeAffinityPolicy, "nodeTaintsPolicy": c.NodeTaintsPolicy} {
		if p != nil && !slices.Contains(policies, string(*p)) {
			errs = append(errs, field.NotSupported(at.Child(name), string(*p), policies))
		}
	}
	for j := range list[:i] {
		if list[j].TopologyKey == c.TopologyKey && list[j].WhenUnsatisfiable == c.WhenUnsatisfiable {
			errs = append(errs, field.Duplicate(at, fmt.Sprintf("{%s, %s}", c.TopologyKey, c.WhenUnsatisfiable)))
			break
		}
	}
	return errs
}
