// Package requestheader knows users by the headers that a proxy in front of the
// server sets, as kube-apiserver does for the servers that it aggregates
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#authenticating-proxy).
//
//	proxies, err := requestheader.New(requestheader.Config{Roots: frontProxyCA, AllowedNames: []string{"front-proxy-client"}})
//	chain := authn.Chain{proxies, certificates, anonymous.Authenticator{}}
//
// Headers are believed only on a TLS connection whose client shows a certificate
// of the given authorities, for client authentication and with one of the given
// names, judged by the time and the authorities of each request. The authorities
// must sign proxies and nobody else: whoever has such a certificate can be anybody.
//
// Anyone else's headers are as if they were not there: the request is not mine,
// and who asks is for the next authenticator to tell. A certificate of the
// authorities under another name is refused. So is a user said twice: two parts
// of a system could read two users out of it.
//
// The request is not changed, as for every authenticator. What passes it on must
// take the headers off: authn.Handler and package apiserver do, with all that begin
// with X-Remote-; [Authenticator.Strip] does with headers of other names.
package requestheader

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/planekit/planekit/authn/internal/clientcert"
	"github.com/planekit/planekit/authn/user"
)

// Config says who is believed, and what is read. One of Roots and CurrentRoots
// must be set, and AllowedNames or InsecureAnyName.
type Config struct {
	// Roots are the authorities that sign the certificates of proxies.
	Roots *x509.CertPool
	// CurrentRoots returns the authorities as of now; it is called for every
	// request, and returns the same pool as long as nothing changes. When it
	// returns nil, nobody is believed.
	CurrentRoots func() *x509.CertPool
	// AllowedNames are the common names of proxies.
	AllowedNames []string
	// InsecureAnyName believes everyone who has a certificate of the authorities.
	InsecureAnyName bool

	// UserHeaders say the user's name; the first that is there counts. Nil is
	// X-Remote-User.
	UserHeaders []string
	// UIDHeaders say the user's UID. Nil is X-Remote-Uid.
	UIDHeaders []string
	// GroupHeaders each say one group. Nil is X-Remote-Group.
	GroupHeaders []string
	// ExtraPrefixes begin the headers that say more; a key follows, in which what
	// may not stand in a header is written as in URLs. Nil is X-Remote-Extra-.
	ExtraPrefixes []string
}

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	config   Config
	verifier *clientcert.Verifier[string] // of common names
}

// New checks c.
func New(c Config) (*Authenticator, error) {
	if (c.Roots == nil) == (c.CurrentRoots == nil) {
		return nil, errors.New("requestheader: one of Roots and CurrentRoots must be set")
	}
	if (len(c.AllowedNames) > 0) == c.InsecureAnyName {
		return nil, errors.New("requestheader: either AllowedNames or InsecureAnyName must be set")
	}
	for _, names := range []struct {
		of     *[]string
		absent string
	}{
		{&c.UserHeaders, "X-Remote-User"}, {&c.UIDHeaders, "X-Remote-Uid"},
		{&c.GroupHeaders, "X-Remote-Group"}, {&c.ExtraPrefixes, "X-Remote-Extra-"},
	} {
		if *names.of == nil {
			*names.of = []string{names.absent}
		}
		canonical := make([]string, len(*names.of))
		for i, name := range *names.of {
			if canonical[i] = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)); canonical[i] == "" {
				return nil, errors.New("requestheader: a header without a name")
			}
		}
		*names.of = canonical
	}
	if roots := c.Roots; roots != nil {
		c.CurrentRoots = func() *x509.CertPool { return roots }
	}
	return &Authenticator{c, clientcert.New(c.CurrentRoots, commonName)}, nil
}

// Authenticate verifies that a proxy asks, and reads the user for whom.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || !said(r.Header, a.config.UserHeaders) {
		return nil, false, nil // before a signature is looked at: most requests come from no proxy
	}
	proxy, err := a.verifier.Verify(r.TLS.PeerCertificates)
	if err != nil {
		return nil, false, nil // somebody's own certificate
	}
	if !a.config.InsecureAnyName && !slices.Contains(a.config.AllowedNames, proxy) {
		return nil, false, fmt.Errorf("front proxy: subject with cn=%s is not in the allowed list", proxy)
	}
	name, err := one(r.Header, a.config.UserHeaders)
	if err != nil {
		return nil, false, err
	}
	uid, err := one(r.Header, a.config.UIDHeaders)
	if err != nil {
		return nil, false, err
	}
	u := &user.Info{Name: name, UID: uid, Extra: a.extra(r.Header)}
	for _, header := range a.config.GroupHeaders {
		for _, group := range r.Header[header] {
			if group != "" {
				u.Groups = append(u.Groups, group)
			}
		}
	}
	return u, true, nil
}

func commonName(leaf *x509.Certificate) (string, error) { return leaf.Subject.CommonName, nil }

// Strip takes off every header that a would read, whoever sent it.
func (a *Authenticator) Strip(h http.Header) {
	for _, names := range [][]string{a.config.UserHeaders, a.config.UIDHeaders, a.config.GroupHeaders} {
		for _, name := range names {
			delete(h, name)
		}
	}
	for name := range h {
		for _, prefix := range a.config.ExtraPrefixes {
			if strings.HasPrefix(name, prefix) {
				delete(h, name)
			}
		}
	}
}

// said reports whether there is a header of one of names that says anything.
func said(h http.Header, names []string) bool {
	for _, name := range names {
		if slices.ContainsFunc(h[name], func(value string) bool { return value != "" }) {
			return true
		}
	}
	return false
}

// one returns the value of the first of names that is there, which must be its
// only one.
func one(h http.Header, names []string) (string, error) {
	for _, name := range names {
		switch values := h[name]; {
		case len(values) > 1:
			return "", fmt.Errorf("front proxy: more than one %s", name)
		case len(values) == 1 && values[0] != "":
			return values[0], nil
		}
	}
	return "", nil
}

func (a *Authenticator) extra(h http.Header) map[string][]string {
	var extra map[string][]string
	for _, prefix := range a.config.ExtraPrefixes {
		for name, values := range h {
			key, ok := strings.CutPrefix(name, prefix)
			if !ok {
				continue
			}
			key = strings.ToLower(key)
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			if extra == nil {
				extra = map[string][]string{}
			}
			extra[key] = append(extra[key], values...)
		}
	}
	return extra
}
