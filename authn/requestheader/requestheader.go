// Package requestheader authenticates users by headers that a front proxy sets, as kube-apiserver
// does for the servers that it aggregates
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#authenticating-proxy).
//
//	proxies, err := requestheader.New(requestheader.Config{Roots: frontProxyCA, AllowedNames: []string{"front-proxy-client"}})
//	chain := authn.Chain{proxies, certificates, anonymous.Authenticator{}}
//
// Headers are trusted only on a TLS connection whose client certificate is from the given
// authorities, is for client authentication and has one of the given names. This is checked for
// every request. The authorities must sign only proxies, because the holder of such a certificate
// can act as any user.
//
// On other connections the headers are ignored and the request is not mine, so that the next
// authenticator decides. A certificate of the authorities with another name is refused. So is a
// repeated user header, because different parts of a system might read different users.
//
// As with every authenticator, the request is not changed. The server must remove the headers
// before it passes the request on: authn.Handler and package apiserver remove all headers that
// begin with X-Remote-, and by [Authenticator.Strip] those with other names.
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

// Config configures an Authenticator. One of Roots and CurrentRoots is required, and AllowedNames
// or InsecureAnyName.
type Config struct {
	// Roots are the authorities that sign the certificates of proxies.
	Roots *x509.CertPool
	// CurrentRoots returns the current authorities. It is called for every request and must return
	// the same pool as long as nothing changes. If it returns nil, no proxy is trusted.
	CurrentRoots func() *x509.CertPool
	// AllowedNames are the common names of proxies.
	AllowedNames []string
	// InsecureAnyName trusts every certificate of the authorities, whatever its name.
	InsecureAnyName bool

	// UserHeaders contain the user's name; the first one present is used. Nil means X-Remote-User.
	UserHeaders []string
	// UIDHeaders contain the user's UID. Nil means X-Remote-Uid.
	UIDHeaders []string
	// GroupHeaders contain one group per header. Nil means X-Remote-Group.
	GroupHeaders []string
	// ExtraPrefixes are the prefixes of headers with extra information. The key follows,
	// percent-encoded where a header requires it. Nil means X-Remote-Extra-.
	ExtraPrefixes []string
}

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	config   Config
	verifier *clientcert.Verifier[string] // returns common names
	own      []string                     // the headers that are read
}

// New returns an authenticator.
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
	return &Authenticator{
		config: c, verifier: clientcert.New(c.CurrentRoots, commonName),
		own: slices.Concat(c.UserHeaders, c.UIDHeaders, c.GroupHeaders),
	}, nil
}

// Authenticate verifies the proxy's certificate and reads the user from the headers.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || !said(r.Header, a.config.UserHeaders) {
		return nil, false, nil // avoid verification: most requests do not come from a proxy
	}
	proxy, err := a.verifier.Verify(r.TLS.PeerCertificates)
	if err != nil {
		return nil, false, nil // a user's own certificate
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

// Strip removes all headers that a reads, from any sender, in all spellings that another server may
// accept.
func (a *Authenticator) Strip(h http.Header) {
	for name := range h {
		if slices.ContainsFunc(a.own, func(own string) bool { return len(name) == len(own) && begins(name, own) }) ||
			slices.ContainsFunc(a.config.ExtraPrefixes, func(prefix string) bool { return begins(name, prefix) }) {
			delete(h, name)
		}
	}
}

// begins reports whether a name begins with prefix for some server: without case and with _ as -. It does
// not allocate, because each request has its headers stripped.
func begins(name, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if fold(name[i]) != fold(prefix[i]) {
			return false
		}
	}
	return true
}

func fold(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}

// said reports whether one of the named headers is present and not empty.
func said(h http.Header, names []string) bool {
	for _, name := range names {
		if slices.ContainsFunc(h[name], func(value string) bool { return value != "" }) {
			return true
		}
	}
	return false
}

// one returns the value of the first header of names that is present, which must have a single
// value.
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
