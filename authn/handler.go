package authn

import (
	"io"
	"net/http"
	"strings"

	"github.com/planekit/planekit/authn/user"
)

// unauthorized is the metav1.Status that kube-apiserver sends. It names no cause, because an
// unknown client must not learn what was wrong with a credential.
const unauthorized = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"Unauthorized","reason":"Unauthorized","code":401}` + "\n"

// Handler passes only requests of authenticated users to next. next gets a copy of the request
// whose context contains the user (see [user.FromContext]), without an Authorization header and
// without the headers in which front proxies name a user: X-Remote-* and those of a [Stripper]. All other requests, and those
// with several Authorization headers, get 401 with a Kubernetes Status as JSON. The response does
// not contain the reason; wrap a in a Func to log it. Over HTTP/2, a connection ends after a
// request that was refused or anonymous.
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
		if anonymous(u) {
			lastStream(w, r)
		}
		inner := r.WithContext(user.NewContext(r.Context(), u))
		inner.Header = r.Header.Clone()
		inner.Header.Del("Authorization")
		stripRemote(inner.Header)
		Chain{a}.Strip(inner.Header)
		next.ServeHTTP(w, inner)
	})
}

// stripRemote removes the headers that only a front proxy may set, in all spellings that an inner
// handler may accept.
func stripRemote(h http.Header) {
	const prefix = "X-Remote-"
	for name := range h {
		if len(name) >= len(prefix) && strings.EqualFold(strings.ReplaceAll(name[:len(prefix)], "_", "-"), prefix) {
			delete(h, name)
		}
	}
}

// lastStream makes this request the last of its HTTP/2 connection. Opening streams is cheap for an
// attacker (CVE-2023-44487), so unauthenticated clients get one request per connection.
func lastStream(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		w.Header().Set("Connection", "close") // net/http sends GOAWAY
	}
}

func refuse(w http.ResponseWriter, r *http.Request) {
	lastStream(w, r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	io.WriteString(w, unauthorized)
}

// BearerToken returns the token of a request's Authorization header: the word behind "Bearer" and one space, as kube-apiserver
// reads it. It returns false if the header is missing, has another scheme or no such word. Several headers are an error.
func BearerToken(r *http.Request) (string, bool, error) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return "", false, nil
	}
	if len(values) > 1 {
		return "", false, ErrManyAuthorizations
	}
	scheme, rest, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", false, nil
	}
	token, _, _ := strings.Cut(rest, " ")
	return token, token != "", nil
}

// HasSpaceBeforeToken reports whether the header has a token that does not count, because there is more than one space
// before it. Kubernetes warns of that.
func HasSpaceBeforeToken(r *http.Request) bool {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	return strings.EqualFold(scheme, "bearer") && strings.HasPrefix(rest, " ")
}
