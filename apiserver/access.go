package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/internal/impersonation"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/warning"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// identify finds the user that sent the request, and begins the audit.
func (c *call) identify() error {
	if authn.HasSpaceBeforeToken(c.r) {
		new(warning.Headers).Add(c.w.Header(), "the provided Authorization header contains extra space before the bearer token, and is ignored")
	}
	u, err := c.identifyAudited()
	if c.r.ProtoMajor == 2 && (err != nil || isAnonymous(u)) {
		c.w.Header().Set("Connection", "close") // net/http sends GOAWAY
	}
	c.user = u
	return err
}

// identifyAudited authenticates the request and begins its audit with the result.
func (c *call) identifyAudited() (*user.Info, error) {
	if c.server.config.Auditor == nil {
		return c.authenticate(c.r)
	}
	ctx, annotations := authn.CollectAnnotations(c.r.Context())
	u, err := c.authenticate(c.r.WithContext(ctx))
	c.beginAudit(u)
	for _, one := range annotations() {
		c.annotate(one.Key, one.Value)
	}
	if err != nil && c.audit.trail != nil {
		c.audit.attempted = attempted(c.r)
	}
	return u, err
}

// isAnonymous reports whether u stands for any client. Opening streams costs such clients
// nothing (CVE-2023-44487), so each connection of HTTP/2 ends after one request of theirs.
func isAnonymous(u *user.Info) bool {
	return u.Name == user.Anonymous || u.In(user.Unauthenticated)
}

// A guard knows who sends a request and what users may do.
type guard struct {
	authenticator authn.Authenticator
	authorizer    authz.Authorizer
	log           logr.Logger
}

// authenticate finds the user that sent r and removes the credentials from r.
func (g *guard) authenticate(r *http.Request) (*user.Info, error) {
	// With two headers, a server behind this one might believe the other.
	if len(r.Header.Values("Authorization")) > 1 {
		g.log.V(1).Info("authentication failed", "error", authn.ErrManyAuthorizations.Error())
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	u, known, err := g.authenticator.Authenticate(r)
	if err != nil {
		g.log.V(1).Info("authentication failed", "error", err.Error())
	}
	if err != nil || !known || u == nil || u.Name == "" {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	r.Header.Del("Authorization")
	removeRemote(r.Header)
	if s, ok := g.authenticator.(authn.Stripper); ok {
		s.Strip(r.Header)
	}
	return u, nil
}

// removeRemote removes the headers by which only a front proxy may name the user, so that no
// server behind this one reads them again.
func removeRemote(h http.Header) {
	for name := range h {
		if name == "" || name[0]|0x20 != 'x' {
			continue
		}
		if strings.HasPrefix(http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")), "X-Remote-") {
			delete(h, name)
		}
	}
}

// attempted describes the credentials of a refused request for the audit, in the words of
// kube-apiserver.
func attempted(r *http.Request) string {
	var ways []string
	if _, _, ok := r.BasicAuth(); ok {
		ways = append(ways, "basic")
	}
	if scheme, _, more := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " "); more && strings.EqualFold(scheme, "bearer") {
		ways = append(ways, "bearer")
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		ways = append(ways, "x509")
	}
	if len(ways) == 0 {
		return "Authentication failed, no credentials provided"
	}
	return "Authentication failed, attempted: " + strings.Join(ways, ", ")
}

// impersonate replaces the user by the one that the request's headers name, if any, and puts the
// user into the request's context.
func (c *call) impersonate() error {
	if err := c.impersonateUser(); err != nil {
		return err
	}
	c.r = c.r.WithContext(user.NewContext(c.r.Context(), c.user))
	return nil
}

// impersonateUser asks whether the authenticated user may act as the one whom the headers describe; nothing of its own
// carries over. It removes the headers and records the impersonation in the audit.
func (c *call) impersonateUser() error {
	s, r := c.server, c.r
	described, err := impersonation.Read(r.Header)
	if described == nil || err != nil {
		return err
	}
	as, constraint, err := described.Decide(c.info.Attributes(c.user), impersonation.Checks{Refused: notAllowed, Allowed: func(a authz.Attributes) error {
		decision, reason, err := s.config.Authorizer.Authorize(r.Context(), a)
		if err != nil {
			s.guard.logUndecided(a, err)
		}
		if decision != authz.Allow {
			return notAllowed(a, reason) // also if the authorizer failed, as in Kubernetes
		}
		return nil
	}})
	if err != nil {
		return err
	}
	impersonation.Remove(r.Header)
	c.user = as
	if c.audit.trail != nil {
		c.audit.trail.Impersonates(c.user, constraint)
	}
	return nil
}

// authorize asks whether the user may make the request. If the authorizer failed and did not
// allow it, the response is a 500 in plain text, as in kube-apiserver, and not a 403.
func (c *call) authorize() error {
	s := c.server
	a := c.info.Attributes(c.user)
	decision, reason, err := s.config.Authorizer.Authorize(c.r.Context(), a)
	if decision != authz.Allow && errors.Is(err, authz.ErrNotReady) {
		return notReady(err)
	}
	if decision != authz.Allow && err != nil {
		s.guard.logUndecided(a, err)
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
func (g *guard) authorizeMore(r *http.Request, info requestline.Info, u *user.Info) error {
	a := info.Attributes(u)
	decision, reason, err := g.authorizer.Authorize(r.Context(), a)
	switch {
	case decision == authz.Allow:
		return nil
	case errors.Is(err, authz.ErrNotReady):
		return notReady(err)
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return notAllowed(a, reason)
}

// notReady returns the error of a request that comes before an authorizer can decide, as at a start. Clients send it
// again a second later.
func notReady(err error) error {
	unavailable := apierrors.NewServiceUnavailable(err.Error())
	unavailable.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return unavailable
}

// logUndecided logs that an authorizer could not decide.
func (g *guard) logUndecided(a authz.Attributes, err error) {
	g.log.Error(err, "authorization incomplete", "user", a.User.Name, "verb", a.Verb)
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
