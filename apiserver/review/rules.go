package review

import (
	"context"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// rulesReviewer tells clients what they may do.
type rulesReviewer struct{ may authz.Authorizer }

func (r rulesReviewer) review(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	namespace := obj.(*authorizationv1.SelfSubjectRulesReview).Spec.Namespace
	if namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	u, _ := user.FromContext(ctx)
	rules, err := authz.RulesFor(ctx, r.may, u, namespace)
	status := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    make([]authorizationv1.ResourceRule, len(rules.Resources)),
		NonResourceRules: make([]authorizationv1.NonResourceRule, len(rules.Paths)),
		Incomplete:       rules.Incomplete,
	}
	for i, rule := range rules.Resources {
		status.ResourceRules[i] = authorizationv1.ResourceRule{
			Verbs: rule.Verbs, APIGroups: rule.Groups, Resources: rule.Resources, ResourceNames: rule.Names,
		}
	}
	for i, rule := range rules.Paths {
		status.NonResourceRules[i] = authorizationv1.NonResourceRule{Verbs: rule.Verbs, NonResourceURLs: rule.Paths}
	}
	if err != nil {
		status.EvaluationError = err.Error()
	}
	return &authorizationv1.SelfSubjectRulesReview{Status: status}, nil
}
