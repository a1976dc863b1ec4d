package apiserver

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

// The headers of impersonation
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation).
const (
	impersonatePrefix = "Impersonate-"
	impersonateUser   = "Impersonate-User"
	impersonateGroup  = "Impersonate-Group"
	impersonateUID    = "Impersonate-Uid"
	impersonateExtra  = "Impersonate-Extra-"
)

// impersonate replaces the user by the one that the request's headers name, if any, and puts the
// user into the request's context.
func (c *call) impersonate() error {
	if err := c.impersonateUser(); err != nil {
		return err
	}
	c.r = c.r.WithContext(user.NewContext(c.r.Context(), c.user))
	return nil
}

// impersonateUser asks whether the authenticated user may impersonate the user, each group, the
// UID and each extra of the headers; nothing of its own carries over. It removes the headers and
// records the impersonation in the audit.
func (c *call) impersonateUser() error {
	s, r := c.server, c.r
	as, err := impersonated(r.Header)
	if as == nil || err != nil {
		return err
	}
	for _, a := range as.attributes(c.user) {
		decision, reason, err := s.config.Authorizer.Authorize(r.Context(), a)
		if err != nil {
			s.logUndecided(a, err)
		}
		if decision != authz.Allow {
			return notAllowed(a, reason) // also if the authorizer failed, as in Kubernetes
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, impersonatePrefix) {
			r.Header.Del(name)
		}
	}
	c.user = as.complete()
	if c.audit.trail != nil {
		c.audit.trail.Impersonates(c.user)
	}
	return nil
}

// An impersonation is the user that the headers of a request name.
type impersonation user.Info

// impersonated reads the headers; nil means that there are none.
func impersonated(h http.Header) (*impersonation, error) {
	p := &impersonation{Name: h.Get(impersonateUser), UID: h.Get(impersonateUID), Groups: h.Values(impersonateGroup)}
	any := p.UID != "" || len(p.Groups) > 0
	for name, values := range h {
		key, ok := strings.CutPrefix(name, impersonateExtra)
		if !ok {
			continue
		}
		key, err := url.PathUnescape(strings.ToLower(key))
		if err != nil {
			return nil, badRequest("invalid impersonation header %s", name)
		}
		if p.Extra == nil {
			p.Extra = map[string][]string{}
		}
		p.Extra[key], any = values, true
	}
	if p.Name == "" {
		if any {
			return nil, badRequest("requested impersonation of groups, uid or extra without impersonating a user")
		}
		return nil, nil
	}
	return p, nil
}

// attributes returns what u must be allowed to do.
func (p *impersonation) attributes(u *user.Info) []authz.Attributes {
	all := []authz.Attributes{{User: u, Verb: "impersonate", Version: "v1", Resource: "users", Name: p.Name}}
	if namespace, name, ok := serviceAccount(p.Name); ok {
		all[0].Resource, all[0].Namespace, all[0].Name = "serviceaccounts", namespace, name
	}
	for _, g := range p.Groups {
		all = append(all, authz.Attributes{User: u, Verb: "impersonate", Version: "v1", Resource: "groups", Name: g})
	}
	own := authz.Attributes{User: u, Verb: "impersonate", Group: "authentication.k8s.io", Version: "v1"}
	if p.UID != "" {
		own.Resource, own.Name = "uids", p.UID
		all = append(all, own)
	}
	for key, values := range p.Extra {
		for _, v := range values {
			own.Resource, own.Subresource, own.Name = "userextras", key, v
			all = append(all, own)
		}
	}
	return all
}

// complete adds the groups that every user of the kind has.
func (p *impersonation) complete() *user.Info {
	u := user.Info(*p)
	if namespace, _, ok := serviceAccount(u.Name); ok && len(u.Groups) == 0 {
		u.Groups = []string{user.ServiceAccounts, user.ServiceAccounts + ":" + namespace}
	}
	switch {
	case u.Name == user.Anonymous && !u.In(user.Unauthenticated):
		u.Groups = append(u.Groups[:len(u.Groups):len(u.Groups)], user.Unauthenticated)
	case u.Name != user.Anonymous && !u.In(user.Authenticated) && !u.In(user.Unauthenticated):
		u.Groups = append(u.Groups[:len(u.Groups):len(u.Groups)], user.Authenticated)
	}
	return &u
}

// serviceAccount splits the user name of a service account.
func serviceAccount(username string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(username, user.ServiceAccountPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, ":")
}
