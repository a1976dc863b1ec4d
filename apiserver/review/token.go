package review

import (
	"context"
	"net/http"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// tokenReviewer answers whose a bearer token is. The token is not sent back.
type tokenReviewer struct{ who authn.Authenticator }

func (t tokenReviewer) review(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	review := obj.DeepCopyObject().(*authenticationv1.TokenReview)
	token := review.Spec.Token
	if token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	review.Spec.Token = ""
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	u, known, err := t.who.Authenticate(r)
	review.Status = authenticationv1.TokenReviewStatus{}
	switch {
	case err != nil:
		review.Status.Error = err.Error()
	case known && u.Name != user.Anonymous: // whom a token that nobody knows may be taken for
		review.Status.Authenticated = true
		review.Status.User = userInfo(u)
	}
	return review, nil
}
