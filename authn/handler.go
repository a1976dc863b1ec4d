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
// request whose context carries the user (see [user.FromContext]), without an
// Authorization header and without headers that begin with X-Remote-, by which
// front proxies say who asks; the original request stays as it was. Everybody
// else gets 401 with a Kubernetes Status as JSON, and so does every request with
// more than one Authorization header. Why, the client is not told; a Func around
// a can tell the operator.
func Handler(next http.Handler, a Authenticator) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values("Authorization")) > 1 {
			refuse(w, r)
			return
		}
		u, known, err := a.Authenticate(r)
		if err != nil || !known || u == nil || u.Name == "" {
			refuse(w, r)
			return
		}
		inner := r.WithContext(user.NewContext(r.Context(), u))
		inner.Header = r.Header.Clone()
		inner.Header.Del("Authorization")
		stripRemote(inner.Header)
		next.ServeHTTP(w, inner)
	})
}

// stripRemote takes off what only a front proxy may say, after it has been read,
// in all the spellings that something further in may take for it.
func stripRemote(h http.Header) {
	const prefix = "X-Remote-"
	for name := range h {
		if len(name) >= len(prefix) && strings.EqualFold(strings.ReplaceAll(name[:len(prefix)], "_", "-"), prefix) {
			delete(h, name)
		}
	}
}

func refuse(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		// Opening streams costs a stranger nothing (CVE-2023-44487), so strangers get
		// one for each connection. net/http says GOAWAY.
		w.Header().Set("Connection", "close")
	}
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
