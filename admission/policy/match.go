package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/rules"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
)

// match selects requests. The zero match selects all.
type match struct {
	// namespaces and objects are nil if they select everything.
	namespaces, objects labels.Selector
	rules, excluded     []namedRule
}

type namedRule struct {
	rules.Rule
	names []string // empty means all
}

func newMatch(m *registration.MatchResources) (match, error) {
	var out match
	var wrong [2]error
	out.namespaces, wrong[0] = rules.Selector(m.NamespaceSelector)
	out.objects, wrong[1] = rules.Selector(m.ObjectSelector)
	out.rules, out.excluded = namedRules(m.ResourceRules), namedRules(m.ExcludeResourceRules)
	return out, errors.Join(wrong[:]...)
}

func namedRules(list []registration.NamedRuleWithOperations) []namedRule {
	var all []namedRule
	for i := range list {
		all = append(all, namedRule{rules.New(&list[i].RuleWithOperations), list[i].ResourceNames})
	}
	return all
}

func covered(list []namedRule, r *admission.Request) bool {
	for i := range list {
		if list[i].Covers(r) && (len(list[i].names) == 0 || slices.Contains(list[i].names, r.Name)) {
			return true
		}
	}
	return false
}

// selects reports whether m selects r. namespace is that of r; nil for an object without one.
func (m *match) selects(r *admission.Request, namespace *corev1.Namespace) bool {
	switch {
	case covered(m.excluded, r):
		return false
	case len(m.rules) > 0 && !covered(m.rules, r):
		return false
	case m.objects != nil && !rules.Labelled(m.objects, r.Object) && !rules.Labelled(m.objects, r.OldObject):
		return false
	case m.namespaces == nil:
		return true
	case rules.IsNamespace(r) && r.Subresource == "" && r.Object != nil:
		return rules.Labelled(m.namespaces, r.Object)
	case rules.IsNamespace(r) && r.OldObject != nil:
		return rules.Labelled(m.namespaces, r.OldObject)
	}
	return namespace == nil || m.namespaces.Matches(labels.Set(namespace.Labels))
}

// namespace returns the namespace of r; nil if it has none.
func (s *source) namespace(ctx context.Context, r *admission.Request) (*corev1.Namespace, error) {
	if r.Namespace == "" || rules.IsNamespace(r) {
		return nil, nil
	}
	if namespace, ok := s.namespaces.Get(r.Namespace); ok {
		return namespace, nil
	}
	namespace, err := s.lookup(ctx, r.Namespace)
	var status apierrors.APIStatus
	if err != nil && !errors.As(err, &status) {
		err = apierrors.NewInternalError(fmt.Errorf("namespace %s: %w", r.Namespace, err))
	}
	return namespace, err
}
