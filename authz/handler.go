package authz

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/planekit/planekit/authn/user"
)

// Handler lets only requests through to next that a allows. What a request asks for is what
// attributes returns; nil asks for the path of the URL with the lower-case method as the verb, as
// [Path] does. The user is the one in the request's context, where authn.Handler puts it.
//
// A request that is not allowed gets 403 with the reason that a gives, as plain text, and one about
// which a could not decide gets 500. Nothing that the client has sent is in an answer but quoted.
func Handler(next http.Handler, a Authorizer, attributes func(*http.Request) Attributes) http.Handler {
	if attributes == nil {
		attributes = Path
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := attributes(r)
		switch decision, reason, err := a.Authorize(r.Context(), at); {
		case decision == Allow:
			next.ServeHTTP(w, r)
		case err != nil:
			http.Error(w, "authorization failed", http.StatusInternalServerError)
		default:
			http.Error(w, refusal(&at, reason), http.StatusForbidden)
		}
	})
}

// Path returns the attributes of a request for a path, by the user in its context.
func Path(r *http.Request) Attributes {
	u, _ := user.FromContext(r.Context())
	return Attributes{User: u, Verb: strings.ToLower(r.Method), Path: r.URL.Path}
}

func refusal(at *Attributes, reason string) string {
	who := ""
	if at.User != nil {
		who = at.User.Name
	}
	what := "path " + fmt.Sprintf("%q", at.Path)
	if at.Resource != "" {
		what = fmt.Sprintf("resource %q in API group %q", at.Resource, at.Group)
	}
	text := fmt.Sprintf("forbidden: User %q cannot %s %s", who, at.Verb, what)
	if reason != "" {
		text += ": " + reason
	}
	return text
}
