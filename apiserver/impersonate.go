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

// impersonate returns whom u wants to act as, who is u without such headers. u
// must be allowed to impersonate the user, each group, the uid and each extra;
// nothing of u's own carries over. The headers are taken off.
func (s *Server) impersonate(r *http.Request, u *user.Info) (*user.Info, error) {
	as, err := impersonated(r.Header)
	if as == nil || err != nil {
		return u, err
	}
	for _, a := range as.attributes(u) {
		decision, reason, err := s.config.Authorizer.Authorize(r.Context(), a)
		if err != nil {
			s.undecided(a, err)
		}
		if decision != authz.Allow {
			return nil, notAllowed(a, reason) // whatever went wrong, as in Kubernetes
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, impersonatePrefix) {
			r.Header.Del(name)
		}
	}
	return as.complete(), nil
}

// persona is a user as headers ask for one.
type persona user.Info

// impersonated reads the headers; nil means that there are none.
func impersonated(h http.Header) (*persona, error) {
	p := &persona{Name: h.Get(impersonateUser), UID: h.Get(impersonateUID), Groups: h.Values(impersonateGroup)}
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

// attributes are all that u must be allowed.
func (p *persona) attributes(u *user.Info) []authz.Attributes {
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

// complete adds the groups which every user of the kind has.
func (p *persona) complete() *user.Info {
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
