package metrics

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/plane/planetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func values(t *testing.T, query string) url.Values {
	t.Helper()
	v, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// nodeName returns the name of a node.
func nodeName(t *testing.T, p *planetest.Plane) string {
	t.Helper()
	var name string
	planetest.Eventually(t, func() error {
		all, _, err := typed.Nodes(p.Client()).List(t.Context(), "", metav1.ListOptions{})
		if err == nil && len(all) == 0 {
			err = io.EOF
		}
		if err == nil {
			name = all[0].Name
		}
		return err
	})
	return name
}

// stockSend sends requests to a kube-apiserver.
func stockSend(t *testing.T, s *stock.Server) get {
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(web.CloseIdleConnections)
	return func(method, path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+s.Token)
		r.Header.Set("Content-Type", "application/json")
		response, err := web.Do(r)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}
