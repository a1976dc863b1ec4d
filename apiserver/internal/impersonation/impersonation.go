// Package impersonation reads the headers by which a user acts as another one, and decides whether it may
// (https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/).
package impersonation

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/authn/user"
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
		key = strings.ToLower(key)
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		if p.Extra == nil {
			p.Extra = map[string][]string{}
		}
		p.Extra[key], any = append(p.Extra[key], values...), true
	}
	if p.Name == "" {
		if any {
			return nil, wire.BadRequest("%s", alone(p))
		}
		return nil, nil
	}
	return p, nil
}

// alone words, as kube-apiserver does, that the headers name no user.
func alone(p *User) string {
	return fmt.Sprintf("requested &user.DefaultInfo{Name:%q, UID:%q, Groups:%#v, Extra:%#v} without impersonating a user name", p.Name, p.UID, p.Groups, p.Extra)
}

// Remove removes the headers, so that no server behind this one reads them again.
func Remove(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, headerPrefix) {
			h.Del(name)
		}
	}
}
