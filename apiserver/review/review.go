// Package review serves the resources by which clients ask for the user of a token and
// what a user may do: kubectl auth can-i, kubectl auth whoami, and components that
// leave both questions to the API server.
//
//	resources = append(resources, review.Resources(authenticator, authorizer)...)
//
// The answers are those that a request would get at that moment, from the same
// authenticator and authorizer. Nothing is stored. The right to ask is authorized like
// any other: the SelfSubject kinds are for all users, the other kinds are about third
// parties.
//
// A review which cannot be decided says why in status.evaluationError, or
// status.error, and grants nothing. A SelfSubjectRulesReview is complete if the
// authorizer, with all that it asks, is an [authz.Lister].
package review

import (
	"context"
	"slices"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Resources returns the reviews of groups authentication.k8s.io and
// authorization.k8s.io. The authenticator and the authorizer answer them. Audiences are those of this API
// server (--api-audiences): a TokenReview that asks for no others is about these,
// and tokens that name no audiences are for these alone. Without them no
// TokenReview that asks for audiences knows such a token.
func Resources(who authn.Authenticator, may authz.Authorizer, audiences ...string) []apiserver.Resource {
	access := accessReviewer{may}
	return []apiserver.Resource{
		authorization("SelfSubjectAccessReview", "selfsubjectaccessreviews", false,
			func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} }, access.self),
		authorization("SubjectAccessReview", "subjectaccessreviews", false,
			func() runtime.Object { return &authorizationv1.SubjectAccessReview{} }, access.subject),
		authorization("LocalSubjectAccessReview", "localsubjectaccessreviews", true,
			func() runtime.Object { return &authorizationv1.LocalSubjectAccessReview{} }, access.local),
		authorization("SelfSubjectRulesReview", "selfsubjectrulesreviews", false,
			func() runtime.Object { return &authorizationv1.SelfSubjectRulesReview{} }, rulesReviewer{may}.review),
		authentication("SelfSubjectReview", "selfsubjectreviews",
			func() runtime.Object { return &authenticationv1.SelfSubjectReview{} }, self),
		authentication("TokenReview", "tokenreviews",
			func() runtime.Object { return &authenticationv1.TokenReview{} }, tokenReviewer{who, slices.Clone(audiences)}.review),
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
func self(ctx context.Context, _ runtime.Object) (runtime.Object, error) {
	u, _ := user.FromContext(ctx)
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now()},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(u)},
	}, nil
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
