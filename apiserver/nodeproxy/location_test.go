package nodeproxy_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestLocations: redirects of a pod lead through the proxy, as in kube-apiserver, and what it allows pages of other origins is
// not passed on.
func TestLocations(t *testing.T) {
	n := startNode(t, say(""))
	var location string
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("X-Was-Forwarded", r.Header.Get("X-Forwarded-Uri"))
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
	}))
	defer backend.Close()
	host := backend.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(host)
	n.reachAnywhere(t)
	path := "/api/v1/namespaces/default/pods/web:" + port + "/proxy"
	front := n.front.Listener.Addr().String()
	for _, c := range []struct {
		method, from, location string
		code                   int
		want                   string
	}{
		{"GET", "/x", "/a/b/?c=d", 302, path + "/a/b/?c=d"},
		{"GET", "/x", "b", 302, "b"},
		{"GET", "/x", "/", 302, path + "/"},
		{"GET", "/x", "http://" + host + "/a", 302, path + "/a"},
		{"GET", "/x", "http://" + front + "/a", 302, "http://" + front + path + "/a"},
		{"GET", "/x", "https://example.com/a", 302, "https://example.com/a"},
		{"GET", "/x", path + "/there", 302, path + "/there"},
		{"GET", "/x", "/../../etc", 302, path + "/etc"},
	} {
		location = c.location
		r, err := http.NewRequestWithContext(t.Context(), c.method, n.front.URL+path+c.from, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := n.front.Client().Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := answer.Header.Get("Location"); answer.StatusCode != c.code || got != c.want {
			t.Errorf("%s %s, redirected to %s = %d %s, want %d %s", c.method, path+c.from, c.location, answer.StatusCode, got, c.code, c.want)
		}
		if answer.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s passes Access-Control-Allow-Origin on", c.method, path+c.from)
		}
		if was := answer.Header.Get("X-Was-Forwarded"); was != path+c.from {
			t.Errorf("%s %s reaches the pod with X-Forwarded-Uri %q, want the path", c.method, path+c.from, was)
		}
	}
	handler, err := n.proxy.PodProxy(testPod("node-1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, query string
		code          int
		want          string
	}{
		{"GET", "", 301, path + "/"},
		{"HEAD", "?a=b", 301, path + "/?a=b"},
		{"POST", "", 302, path + "/etc"}, // of the pod
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, path+c.query, nil))
		if got := w.Header().Get("Location"); w.Code != c.code || got != c.want {
			t.Errorf("%s %s = %d %s, want %d %s", c.method, path+c.query, w.Code, got, c.code, c.want)
		}
	}
}
