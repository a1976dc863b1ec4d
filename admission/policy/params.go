package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/internal/selector"
	registration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// paramsOf returns the parameters with which a policy is evaluated through a binding, for a request in a namespace.
// One nil parameter means that there are none to evaluate with; no parameter means no evaluation.
func (s *source) paramsOf(ctx context.Context, of *policy, ref *registration.ParamRef, namespaced bool, namespace string) ([]map[string]any, error) {
	if of.paramKind == nil || ref == nil {
		return []map[string]any{nil}, nil
	}
	switch {
	case !namespaced && ref.Namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case !namespaced:
		namespace = ""
	case ref.Namespace != "":
		namespace = ref.Namespace
	case namespace == "":
		return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	}
	var found []map[string]any
	switch {
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		one, err := s.params.Get(ctx, *of.paramKind, namespace, ref.Name)
		switch {
		case err == nil:
			found = append(found, one)
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	case ref.Selector != nil:
		wanted, err := selector.Of(ref.Selector)
		if err != nil {
			return nil, err
		}
		if found, err = s.params.List(ctx, *of.paramKind, namespace, wanted); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New("one of name or selector must be provided")
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == registration.DenyAction {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	return found, nil
}

// scopeOf reports whether the parameters of a policy are in namespaces.
func (s *source) scopeOf(ctx context.Context, of *policy) (bool, error) {
	if of.paramKind == nil {
		return false, nil
	}
	namespaced, err := s.params.Namespaced(ctx, *of.paramKind)
	if err != nil {
		return false, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", *of.paramKind)
	}
	return namespaced, nil
}
