// Package review serves the resources by which clients ask who somebody is and
// what they may do: kubectl auth can-i, kubectl auth whoami, and components that
// leave both questions to the API server.
//
//	resources = append(resources, review.Resources(authenticator, authorizer)...)
//
// The answers are those that a request would get at that moment, from the same
// authenticator and authorizer. Nothing is stored. Who may ask is a matter of
// authorization like any other: the SelfSubject kinds are for everybody, the
// others tell about third parties.
//
// A review which cannot be decided says why in status.evaluationError, or
// status.error, and grants nothing. SelfSubjectRulesReview is left out: it asks
// an authorizer to enumerate what it can only decide.
package review

import (
	"cmp"
	"context"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// Resources returns the reviews of groups authentication.k8s.io and
// authorization.k8s.io, answered by who and may.
func Resources(who authn.Authenticator, may authz.Authorizer) []apiserver.Resource {
	access := accessReviewer{may}
	return []apiserver.Resource{
		authorization("SelfSubjectAccessReview", "selfsubjectaccessreviews", false,
			func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} }, access.self),
		authorization("SubjectAccessReview", "subjectaccessreviews", false,
			func() runtime.Object { return &authorizationv1.SubjectAccessReview{} }, access.subject),
		authorization("LocalSubjectAccessReview", "localsubjectaccessreviews", true,
			func() runtime.Object { return &authorizationv1.LocalSubjectAccessReview{} }, access.local),
		authentication("SelfSubjectReview", "selfsubjectreviews",
			func() runtime.Object { return &authenticationv1.SelfSubjectReview{} }, self),
		authentication("TokenReview", "tokenreviews",
			func() runtime.Object { return &authenticationv1.TokenReview{} }, tokenReviewer{who}.review),
	}
}

type answer = func(context.Context, runtime.Object) (runtime.Object, error)

func authorization(kind, plural string, namespaced bool, empty func() runtime.Object, a answer) apiserver.Resource {
	return apiserver.Resource{
		Group: authorizationv1.GroupName, Version: "v1", Kind: kind, Plural: plural, Namespaced: namespaced, New: empty, Answer: a,
	}
}

func authentication(kind, plural string, empty func() runtime.Object, a answer) apiserver.Resource {
	return apiserver.Resource{
		Group: authenticationv1.GroupName, Version: "v1", Kind: kind, Plural: plural, New: empty, Answer: a,
	}
}

// self tells the client who it is.
func self(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	review := obj.DeepCopyObject().(*authenticationv1.SelfSubjectReview)
	u, _ := user.FromContext(ctx)
	review.Status.UserInfo = userInfo(u)
	return review, nil
}

func userInfo(u *user.Info) authenticationv1.UserInfo {
	if u == nil {
		return authenticationv1.UserInfo{}
	}
	info := authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	for key, values := range u.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

// accessReviewer answers what somebody may do.
type accessReviewer struct{ may authz.Authorizer }

func (a accessReviewer) self(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	review := obj.DeepCopyObject().(*authorizationv1.SelfSubjectAccessReview)
	u, _ := user.FromContext(ctx)
	var err error
	review.Status, err = a.decide(ctx, u, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	return review, err
}

func (a accessReviewer) subject(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	review := obj.DeepCopyObject().(*authorizationv1.SubjectAccessReview)
	var err error
	review.Status, err = a.decideFor(ctx, &review.Spec)
	return review, err
}

func (a accessReviewer) local(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	review := obj.DeepCopyObject().(*authorizationv1.LocalSubjectAccessReview)
	if r := review.Spec.ResourceAttributes; r == nil || r.Namespace != review.Namespace {
		return nil, apierrors.NewBadRequest("spec.resourceAttributes.namespace must match metadata.namespace")
	}
	var err error
	review.Status, err = a.decideFor(ctx, &review.Spec)
	return review, err
}

func (a accessReviewer) decideFor(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	if spec.User == "" && len(spec.Groups) == 0 {
		return authorizationv1.SubjectAccessReviewStatus{}, apierrors.NewBadRequest("at least one of spec.user and spec.groups must be set")
	}
	u := &user.Info{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for key, values := range spec.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	return a.decide(ctx, u, spec.ResourceAttributes, spec.NonResourceAttributes)
}

func (a accessReviewer) decide(ctx context.Context, u *user.Info, r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
	attributes := authz.Attributes{User: u}
	switch {
	case (r == nil) == (n == nil):
		return authorizationv1.SubjectAccessReviewStatus{}, apierrors.NewBadRequest("exactly one of spec.resourceAttributes and spec.nonResourceAttributes must be set")
	case r != nil:
		attributes.Verb, attributes.Group, attributes.Version = r.Verb, r.Group, cmp.Or(r.Version, "*")
		attributes.Resource, attributes.Subresource = cmp.Or(r.Resource, "*"), r.Subresource
		attributes.Namespace, attributes.Name = r.Namespace, r.Name
	default:
		attributes.Verb, attributes.Path = n.Verb, n.Path
	}
	decision, reason, err := a.may.Authorize(ctx, attributes)
	status := authorizationv1.SubjectAccessReviewStatus{Allowed: decision == authz.Allow, Denied: decision == authz.Deny, Reason: reason}
	if err != nil {
		status.EvaluationError = err.Error()
	}
	return status, nil
}
