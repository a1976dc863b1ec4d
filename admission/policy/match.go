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
	// equivalent means that the rules also cover requests for equivalent resources.
	equivalent bool
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
	out.equivalent = m.MatchPolicy != nil && *m.MatchPolicy == registration.Equivalent
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

// covers reports whether the rule is about r if that is for a resource.
func (n *namedRule) covers(r *admission.Request, as admission.GroupVersionResource) bool {
	return n.CoversAs(r, as) && (len(n.names) == 0 || slices.Contains(n.names, r.Name))
}

// covered returns the type of r, its own or an equivalent one, that a rule of list is about.
func (m *match) covered(list []namedRule, r *admission.Request) (admission.Equivalent, bool) {
	for i := range list {
		if list[i].covers(r, r.Resource) {
			return rules.Own(r), true
		}
	}
	if !m.equivalent || len(list) == 0 {
		return admission.Equivalent{}, false
	}
	return rules.Equivalent(r, len(list), func(rule int, as admission.GroupVersionResource) bool { return list[rule].covers(r, as) })
}

// selects returns the type of r that m selects, its own or an equivalent one, and whether it selects r at all. namespace
// is that of r; nil for an object without one.
func (m *match) selects(r *admission.Request, namespace *corev1.Namespace) (admission.Equivalent, bool) {
	as := rules.Own(r)
	if len(m.rules) > 0 {
		var ok bool
		if as, ok = m.covered(m.rules, r); !ok {
			return as, false
		}
	}
	if _, excluded := m.covered(m.excluded, r); excluded {
		return as, false
	}
	return as, m.finds(r, namespace)
}

// finds reports whether the selectors of m select r.
func (m *match) finds(r *admission.Request, namespace *corev1.Namespace) bool {
	switch {
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
