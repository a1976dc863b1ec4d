package review

import (
	"context"
	"net/http"
	"slices"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// tokenReviewer answers whose a bearer token is, and for which of the audiences
// that the review asks for. The token is not sent back.
type tokenReviewer struct {
	who authn.Authenticator
	// own are the audiences of this API server.
	own []string
}

func (t tokenReviewer) review(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	review := obj.DeepCopyObject().(*authenticationv1.TokenReview)
	token := review.Spec.Token
	if token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	review.Spec.Token = ""
	asked := review.Spec.Audiences
	if len(asked) == 0 {
		asked = t.own
	}
	ctx, matched := authn.CollectMatched(authn.WithAudiences(ctx, asked))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	u, known, err := t.who.Authenticate(r)
	review.Status = authenticationv1.TokenReviewStatus{}
	if err != nil {
		review.Status.Error = err.Error()
		return review, nil
	}
	audiences, reported := matched()
	if !reported { // the token names no audiences: it is for this API server
		audiences = t.own
	}
	if len(asked) > 0 {
		audiences = common(audiences, asked)
	}
	switch {
	case !known, u.Name == user.Anonymous: // an authenticator may take an unknown token for this user
	case len(audiences) == 0 && len(asked) > 0: // it is known, but for other audiences
	default:
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: userInfo(u), Audiences: audiences}
	}
	return review, nil
}

// common returns the elements of a that b contains.
func common(a, b []string) []string {
	var out []string
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}
