package aggregate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/planekit/planekit/authn/user"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// serve passes r on to s.
func (a *Aggregator) serve(w http.ResponseWriter, r *http.Request, s Service) {
	u, ok := user.FromContext(r.Context())
	if !ok {
		a.unavailable(w, s, nil) // nobody who asks: never passed on as somebody
		return
	}
	to, err := a.config.Resolve(r.Context(), s)
	if err != nil {
		a.unavailable(w, s, err)
		return
	}
	through, err := a.transport(s, r.Header.Get("Upgrade") != "")
	if err != nil {
		a.unavailable(w, s, err)
		return
	}
	proxy := &httputil.ReverseProxy{
		Transport:     through,
		FlushInterval: -1, // watches are read as they come
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = to.Scheme, to.Host
			p.Out.Host = to.Host
			identifyTo(p.Out.Header, u)
			p.SetXForwarded()
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { a.unavailable(w, s, err) },
	}
	proxy.ServeHTTP(w, r)
}

// identifyTo says that u asks, and nobody else: whatever the client claimed is
// taken off.
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
// URLs.
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

// unavailable answers 503. The cause is for the log; clients are not told
// addresses.
func (a *Aggregator) unavailable(w http.ResponseWriter, s Service, err error) {
	a.config.Log.Info("another API server cannot be reached", "groupVersion", s.GroupVersion.String(), "service", s.Namespace+"/"+s.Name, "error", err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: "service unavailable",
	})
}
