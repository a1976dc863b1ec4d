package review

import (
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/requirement"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// narrow adds the selectors of r to the attributes, and says in Kubernetes' words
// what of them cannot be read: that is left out, so that more is asked for than
// was meant, never less.
func narrow(at *authz.Attributes, r *authorizationv1.ResourceAttributes) []string {
	var troubles []string
	broken := func(field string, read []authz.Requirement) {
		partially := ""
		if len(read) > 0 {
			partially = "partially "
		}
		troubles = append(troubles, "spec.resourceAttributes."+field+" "+partially+"ignored due to parse error")
	}
	if s := r.FieldSelector; s != nil {
		all, ok := fieldRequirements(s.Requirements)
		if s.RawSelector != "" {
			var err error
			all, err = requirement.Fields(s.RawSelector)
			ok = err == nil
		}
		if at.Fields = all; !ok {
			broken("fieldSelector", all)
		}
	}
	if s := r.LabelSelector; s != nil {
		all, ok := labelRequirements(s.Requirements)
		if s.RawSelector != "" {
			var err error
			all, err = requirement.Labels(s.RawSelector)
			ok = err == nil
		}
		if at.Labels = all; !ok {
			broken("labelSelector", all)
		}
	}
	return troubles
}

// fieldRequirements are those with one value to be or not to be, which is all that a
// field selector can say.
func fieldRequirements(from []metav1.FieldSelectorRequirement) (all []authz.Requirement, ok bool) {
	ok = true
	for _, r := range from {
		known := r.Operator == metav1.FieldSelectorOpIn || r.Operator == metav1.FieldSelectorOpNotIn
		if !known || len(r.Values) != 1 {
			ok = false
			continue
		}
		all = append(all, authz.Requirement{Key: r.Key, Operator: authz.Operator(r.Operator), Values: r.Values})
	}
	return all, ok
}

var labelOperators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
	metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

func labelRequirements(from []metav1.LabelSelectorRequirement) (all []authz.Requirement, ok bool) {
	var valid labels.Requirements
	for _, r := range from {
		if made, err := labels.NewRequirement(r.Key, labelOperators[r.Operator], r.Values); err == nil {
			valid = append(valid, *made)
		}
	}
	return requirement.FromLabels(valid), len(valid) == len(from)
}
