package authz

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/planekit/planekit/authn/user"
)

// Handler passes only requests to next that a allows. attributes returns the attributes of a
// request; nil means [Path], the path of the URL with the lower-case method as the verb. The user
// is the one in the request's context, where authn.Handler puts it.
//
// A request that is not allowed gets 403 with the reason of a as plain text. It gets 500 if a fails
// to decide. Input of the client appears in an answer only quoted.
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

// Path returns the attributes of a request for a path, with the user in its context.
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
