package nodeproxy

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// endWithSlash sends clients from the path of a proxy itself to the one with a slash at its end, so that relative
// links of a page lead through the proxy. It reports whether it has answered.
func (t *target) endWithSlash(w http.ResponseWriter, r *http.Request) bool {
	if !t.bare || r.Method != http.MethodGet && r.Method != http.MethodHead || r.Header.Get("Upgrade") != "" {
		return false
	}
	location := r.URL.EscapedPath() + "/"
	if r.URL.RawQuery != "" {
		location += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusMovedPermanently)
	return true
}

// prefix returns the part of the path of a request that leads to the target.
func (t *target) prefix(r *http.Request) string { return strings.TrimSuffix(r.URL.Path, t.path) }

// corsHeaders are those by which a server lets pages of other origins read its responses. What is behind a proxy
// must not decide that for the API server.
var corsHeaders = []string{
	"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin",
}

// relocate makes a redirect to the same server lead through the proxy, as kube-apiserver does.
func (b *backend) relocate(answer *http.Response, client *http.Request) {
	for _, name := range corsHeaders {
		answer.Header.Del(name)
	}
	if to, err := url.Parse(answer.Header.Get("Location")); err == nil && b.through(to, client) {
		answer.Header.Set("Location", to.String())
	}
}

// through changes a link of the server's so that it leads through the proxy, and reports whether it has: not one that is relative
// to where the client is, nor one to another server.
func (b *backend) through(to *url.URL, client *http.Request) bool {
	if b.prefix == "" || !strings.HasPrefix(to.Path, "/") || to.Host != "" && to.Host != b.url.Host && to.Host != client.Host {
		return false
	}
	if to.Host == "" || to.Host != client.Host {
		to.Scheme, to.Host = "", ""
	}
	if !strings.HasPrefix(to.Path, b.prefix) {
		slash := strings.HasSuffix(to.Path, "/")
		to.Path, to.RawPath = path.Join(b.prefix, path.Clean(to.Path)), ""
		if slash && !strings.HasSuffix(to.Path, "/") {
			to.Path += "/"
		}
	}
	return true
}
