package aggregate

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/planekit/planekit/authn/user"
)

// The headers that tell another server who asks
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#authenticating-proxy).
const (
	remotePrefix = "X-Remote-"
	remoteUser   = remotePrefix + "User"
	remoteUID    = remotePrefix + "Uid"
	remoteGroup  = remotePrefix + "Group"
	remoteExtra  = remotePrefix + "Extra-"
)

// pass passes r on.
func (b *backend) pass(w http.ResponseWriter, r *http.Request) {
	u, ok := user.FromContext(r.Context())
	if !ok {
		http.Error(w, "missing user", http.StatusInternalServerError) // never passed on as another user
		return
	}
	if !b.available {
		unavailable(w)
		return
	}
	to, err := b.config.Resolver.Resolve(r.Context(), b.namespace, b.name, b.port)
	if err != nil {
		b.broken(w, r, err)
		return
	}
	through, err := b.transport(r.Header.Get("Upgrade") != "")
	if err != nil {
		b.broken(w, r, err)
		return
	}
	proxy := &httputil.ReverseProxy{
		Transport:     through,
		FlushInterval: -1, // watches are read as they come
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = to.Scheme, to.Host
			p.Out.Host = to.Host
			identifyTo(p.Out.Header, u)
			p.Out.Trailer = nil // some servers read trailers as headers
			p.SetXForwarded()
		},
		ErrorHandler: b.broken,
		ErrorLog:     log.New(proxyLog{b}, "", 0), // else it writes to standard error
	}
	proxy.ServeHTTP(w, r)
}

// proxyLog is where the proxy says that an answer broke off.
type proxyLog struct{ *backend }

func (l proxyLog) Write(line []byte) (int, error) {
	l.config.Log.V(1).Info("answer of another API server broke off", "groupVersion", l.gv.String(), "message", string(line))
	return len(line), nil
}

// identifyTo names u as the only user of a request: it removes what the client has
// claimed.
func identifyTo(h http.Header, u *user.Info) {
	for name := range h {
		// Compared without case and with _ as -, as some servers read them.
		plain := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if strings.HasPrefix(plain, remotePrefix) || strings.HasPrefix(plain, "Impersonate-") || plain == "Authorization" {
			delete(h, name)
		}
	}
	h.Set(remoteUser, u.Name)
	if u.UID != "" {
		h.Set(remoteUID, u.UID)
	}
	for _, group := range u.Groups {
		h.Add(remoteGroup, group)
	}
	for key, values := range u.Extra {
		for _, value := range values {
			h.Add(remoteExtra+escape(key), value)
		}
	}
}

// escape makes a header name of key: what may not stand in one is written as in
// URLs, as are percent signs, so that it can be undone.
func escape(key string) string {
	var b strings.Builder
	for _, c := range []byte(key) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$&'*+-.^_`|~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// broken is for a server that cannot be reached though it seemed available. The
// cause is for the log; clients are not told addresses.
func (b *backend) broken(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		b.config.Log.Info("another API server cannot be reached", "groupVersion", b.gv.String(), "service", b.namespace+"/"+b.name, "error", err.Error())
	}
	unavailable(w)
}

// unavailable answers as kube-aggregator does, in plain text.
func unavailable(w http.ResponseWriter) {
	http.Error(w, "service unavailable", http.StatusServiceUnavailable)
}
