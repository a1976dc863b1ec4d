// Package impersonation reads the headers by which a user acts as another one
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation).
// The caller asks an authorizer about each of [User.Attributes] before it lets the request go on as
// [User.Complete].
package impersonation

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

const (
	headerPrefix = "Impersonate-"
	headerUser   = "Impersonate-User"
	headerGroup  = "Impersonate-Group"
	headerUID    = "Impersonate-Uid"
	headerExtra  = "Impersonate-Extra-"
)

// A User is the user that the headers of a request name.
type User user.Info

// Read reads the headers; nil means that there are none.
func Read(h http.Header) (*User, error) {
	p := &User{Name: h.Get(headerUser), UID: h.Get(headerUID), Groups: h.Values(headerGroup)}
	any := p.UID != "" || len(p.Groups) > 0
	for name, values := range h {
		key, ok := strings.CutPrefix(name, headerExtra)
		if !ok {
			continue
		}
		key, err := url.PathUnescape(strings.ToLower(key))
		if err != nil {
			return nil, wire.BadRequest("invalid impersonation header %s", name)
		}
		if p.Extra == nil {
			p.Extra = map[string][]string{}
		}
		p.Extra[key], any = values, true
	}
	if p.Name == "" {
		if any {
			return nil, wire.BadRequest("requested impersonation of groups, uid or extra without impersonating a user")
		}
		return nil, nil
	}
	return p, nil
}

// Remove removes the headers, so that no server behind this one reads them again.
func Remove(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, headerPrefix) {
			h.Del(name)
		}
	}
}

// Attributes returns what u must be allowed to do.
func (p *User) Attributes(u *user.Info) []authz.Attributes {
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

// Complete returns the user with the groups that every user of the kind has.
func (p *User) Complete() *user.Info {
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
