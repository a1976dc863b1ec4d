package review

import (
	"cmp"
	"context"
	"strings"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// accessReviewer answers what a user may do.
type accessReviewer struct{ may authz.Authorizer }

func (a accessReviewer) self(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	review := obj.DeepCopyObject().(*authorizationv1.SelfSubjectAccessReview)
	if err := refusal(checkSelf(review)); err != nil {
		return nil, err
	}
	u, _ := user.FromContext(ctx)
	review.Status = a.decide(ctx, u, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	return review, nil
}

func (a accessReviewer) subject(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	review := obj.DeepCopyObject().(*authorizationv1.SubjectAccessReview)
	if err := refusal(checkSubject(review)); err != nil {
		return nil, err
	}
	review.Status = a.decideFor(ctx, &review.Spec)
	return review, nil
}

func (a accessReviewer) local(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	review := obj.DeepCopyObject().(*authorizationv1.LocalSubjectAccessReview)
	if err := refusal(checkLocal(review)); err != nil {
		return nil, err
	}
	review.Status = a.decideFor(ctx, &review.Spec)
	return review, nil
}

func (a accessReviewer) decideFor(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	u := &user.Info{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for key, values := range spec.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	return a.decide(ctx, u, spec.ResourceAttributes, spec.NonResourceAttributes)
}

// decide answers for the one of r and n that is given.
func (a accessReviewer) decide(ctx context.Context, u *user.Info, r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	attributes := authz.Attributes{User: u}
	var troubles []string
	if r != nil {
		attributes.Verb, attributes.Group, attributes.Version = r.Verb, r.Group, cmp.Or(r.Version, "*")
		attributes.Resource, attributes.Subresource = cmp.Or(r.Resource, "*"), r.Subresource
		attributes.Namespace, attributes.Name = r.Namespace, r.Name
		troubles = narrow(&attributes, r)
	} else {
		attributes.Verb, attributes.Path = n.Verb, n.Path
	}
	decision, reason, err := a.may.Authorize(ctx, attributes)
	if err != nil {
		troubles = append([]string{err.Error()}, troubles...)
	}
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authz.Allow, Denied: decision == authz.Deny, Reason: reason,
		EvaluationError: strings.Join(troubles, "; "),
	}
}
