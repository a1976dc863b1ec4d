// Package requirement converts field and label selectors to the requirements of package authz.
package requirement

import (
	"github.com/planekit/planekit/authz"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Fields parses a field selector such as "spec.nodeName=a".
func Fields(selector string) ([]authz.Requirement, error) {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return nil, err
	}
	var all []authz.Requirement
	for _, r := range parsed.Requirements() {
		if operator, ok := known(r.Operator); ok {
			all = append(all, authz.Requirement{Key: r.Field, Operator: operator, Values: []string{r.Value}})
		}
	}
	return all, nil
}

// Labels parses a label selector such as "tier in (web,db),!canary".
func Labels(selector string) ([]authz.Requirement, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	requirements, _ := parsed.Requirements()
	return FromLabels(requirements), nil
}

// FromLabels converts requirements. It omits those with an operator that package authz does not
// have.
func FromLabels(requirements labels.Requirements) []authz.Requirement {
	var all []authz.Requirement
	for _, r := range requirements {
		if operator, ok := known(r.Operator()); ok {
			all = append(all, authz.Requirement{Key: r.Key(), Operator: operator, Values: r.Values().List()})
		}
	}
	return all
}

func known(operator selection.Operator) (authz.Operator, bool) {
	switch operator {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return authz.In, true
	case selection.NotEquals, selection.NotIn:
		return authz.NotIn, true
	case selection.Exists:
		return authz.Exists, true
	case selection.DoesNotExist:
		return authz.DoesNotExist, true
	}
	return "", false
}
