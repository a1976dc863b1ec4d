package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// authorize asks whether the user may make the request. If the authorizer failed and did not
// allow it, the response is a 500 in plain text, as in kube-apiserver, and not a 403.
func (c *call) authorize() error {
	s := c.server
	a := c.info.attributes(c.user)
	decision, reason, err := s.config.Authorizer.Authorize(c.r.Context(), a)
	if decision != authz.Allow && err != nil {
		s.logUndecided(a, err)
		c.annotate("authorization.k8s.io/reason", "internal error")
		text := fmt.Sprintf("Internal Server Error: %q: %v", c.r.URL.RequestURI(), err)
		http.Error(&c.w, plainText.Replace(text), http.StatusInternalServerError)
		return errResponded
	}
	if trail := c.audit.trail; trail != nil {
		trail.Decided(decision == authz.Allow, reason)
	}
	if decision != authz.Allow {
		return notAllowed(a, reason)
	}
	return nil
}

// authorizeMore asks whether u may do something else in the same request.
func (s *Server) authorizeMore(r *http.Request, info requestInfo, u *user.Info) error {
	a := info.attributes(u)
	decision, reason, err := s.config.Authorizer.Authorize(r.Context(), a)
	switch {
	case decision == authz.Allow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return notAllowed(a, reason)
}

// logUndecided logs that an authorizer could not decide.
func (s *Server) logUndecided(a authz.Attributes, err error) {
	s.config.Log.Error(err, "authorization incomplete", "user", a.User.Name, "verb", a.Verb)
}

// notAllowed returns the error of a request with attributes a that is refused.
func notAllowed(a authz.Attributes, reason string) error {
	gr := schema.GroupResource{Group: a.Group, Resource: a.Resource}
	return apierrors.NewForbidden(gr, a.Name, fmt.Errorf("%s", forbidden(a, reason)))
}

// forbidden words a refusal as Kubernetes does.
func forbidden(a authz.Attributes, reason string) string {
	who := ""
	if a.User != nil {
		who = a.User.Name
	}
	var text string
	switch resource := strings.Join(slices.DeleteFunc([]string{a.Resource, a.Subresource}, isEmpty), "/"); {
	case a.Resource == "":
		text = fmt.Sprintf("User %q cannot %s path %q", who, a.Verb, a.Path)
	case a.Namespace != "":
		text = fmt.Sprintf("User %q cannot %s resource %q in API group %q in the namespace %q", who, a.Verb, resource, a.Group, a.Namespace)
	default:
		text = fmt.Sprintf("User %q cannot %s resource %q in API group %q at the cluster scope", who, a.Verb, resource, a.Group)
	}
	text = plainText.Replace(text)
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// plainText escapes the characters of HTML in text that a client has chosen, as Kubernetes
// does.
var plainText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func isEmpty(s string) bool { return s == "" }
