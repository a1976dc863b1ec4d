package apiserver

import (
	"net/http"
	"strings"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// identify finds the user that sent the request, and begins the audit.
func (c *call) identify() error {
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

// authenticate finds the user that sent r and removes the credentials from r.
func (s *Server) authenticate(r *http.Request) (*user.Info, error) {
	// With two headers, a server behind this one might believe the other.
	if len(r.Header.Values("Authorization")) > 1 {
		s.config.Log.V(1).Info("authentication failed", "error", authn.ErrManyAuthorizations.Error())
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	u, known, err := s.config.Authenticator.Authenticate(r)
	if err != nil {
		s.config.Log.V(1).Info("authentication failed", "error", err.Error())
	}
	if err != nil || !known || u == nil || u.Name == "" {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	r.Header.Del("Authorization")
	removeRemote(r.Header)
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
