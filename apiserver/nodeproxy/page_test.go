package nodeproxy_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPages: the links of a pod's pages lead through the proxy, as in kube-apiserver.
func TestPages(t *testing.T) {
	n := startNode(t, say(""))
	var media, encoding, text string
	code := http.StatusOK
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		body := []byte(text)
		if encoding == "gzip" {
			var packed bytes.Buffer
			writer := gzip.NewWriter(&packed)
			_, _ = writer.Write(body)
			_ = writer.Close()
			body = packed.Bytes()
		}
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		if code != http.StatusOK {
			w.WriteHeader(code)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
	}))
	defer backend.Close()
	host := backend.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(host)
	n.reachAnywhere(t)
	path := "/api/v1/namespaces/default/pods/web:" + port + "/proxy"
	long := "<!--" + strings.Repeat("x", 2<<20) + `--><a href="/a">`
	for _, c := range []struct{ media, encoding, page, want string }{
		{"text/html", "", `<a href="/a?b=c#d">x</a> <a href="b">`, `<a href="` + path + `/a?b=c#d">x</a> <a href="b">`},
		{"text/html; charset=utf-8", "", `<IMG SRC='/a.png' alt="/x"/><script src=/b.js></script>`, `<img src="` + path + `/a.png" alt="/x"/><script src="` + path + `/b.js"></script>`},
		{"text/html", "gzip", `<form action="/">`, `<form action="` + path + `/">`},
		{"text/html", "", `<a href="http://` + host + `/a">`, `<a href="` + path + `/a">`},
		{"text/html", "", `<a href="http://example.com/a"><a href="//example.com/a"><a href="` + path + `/a">`, `<a href="http://example.com/a"><a href="//example.com/a"><a href="` + path + `/a">`},
		{"text/html", "", `<A  data-x = 1 HREF="b">text &lt; <p`, `<A  data-x = 1 HREF="b">text &lt; <p`},
		{"text/html", "", `<script>x = "<a href='/a'>"</script>`, `<script>x = "<a href='/a'>"</script>`},
		{"text/html", "", `<a href="/a` + "\x7f" + `"><a href="%zz">`, `<a href="/a` + "\x7f" + `"><a href="%zz">`},
		{"text/html", "", `<a href="/&quot;>">`, `<a href="` + path + `/%22%3E">`},
		{"text/plain", "", `<a href="/a">`, `<a href="/a">`},
		{"text/html", "br", `<a href="/a">`, `<a href="/a">`},
		{"text/html", "", long, long},
		{"text/html", "", "", ""},
	} {
		media, encoding, text = c.media, c.encoding, c.page
		answer, err := n.front.Client().Get(n.front.URL + path + "/")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(got) != c.want {
			t.Errorf("%s page %.200q passes as %.300q, %v, want %.300q", c.media, c.page, got, err, c.want)
		}
	}
	media, encoding, text = "text/html", "gzip", ""
	for _, code = range []int{http.StatusNoContent, http.StatusNotModified, http.StatusNotFound} { // the last with an empty body
		answer, err := n.front.Client().Get(n.front.URL + path + "/")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != code || len(got) > 0 {
			t.Errorf("an empty page with %d passes with %d, %q, %v, want the same code and no body", code, answer.StatusCode, got, err)
		}
	}
}
