package authn

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/planekit/planekit/authn/user"
)

// unauthorized is the metav1.Status that kube-apiserver answers with. It names
// no cause: what was wrong with a credential is nothing to tell a stranger.
const unauthorized = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"Unauthorized","reason":"Unauthorized","code":401}` + "\n"

// Handler lets only requests of known users through to next. Next sees a
// request without an Authorization header, whose context carries the user (see
// [user.FromContext]); the original request stays as it was. Everybody else
// gets 401 with a Kubernetes Status as JSON, and so does every request with
// more than one Authorization header.
func Handler(next http.Handler, a Authenticator) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values("Authorization")) > 1 {
			refuse(w)
			return
		}
		u, known, err := a.Authenticate(r)
		if err != nil || !known || u == nil || u.Name == "" {
			refuse(w)
			return
		}
		inner := r.WithContext(user.NewContext(r.Context(), u))
		inner.Header = r.Header.Clone()
		inner.Header.Del("Authorization")
		next.ServeHTTP(w, inner)
	})
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	io.WriteString(w, unauthorized)
}

// BearerToken returns the token of a request's Authorization header, and false
// where there is none of the Bearer scheme. Several headers, and a Bearer
// header without a token, are errors.
func BearerToken(r *http.Request) (string, bool, error) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return "", false, nil
	}
	if len(values) > 1 {
		return "", false, ErrManyAuthorizations
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", false, nil
	}
	token = strings.TrimSpace(token)
	if token == "" {
		return "", false, errors.New("empty bearer token")
	}
	return token, true, nil
}
