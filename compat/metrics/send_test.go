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
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
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

// shared returns a store in the etcd of s, beside the keys of s.
func shared(t *testing.T, s *stock.Server) storage.Store {
	t.Helper()
	etcd, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{Endpoints: []string{s.Etcd}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	store, err := etcdstore.New(etcdstore.Config{Client: etcd, Prefix: "/plane"})
	if err != nil {
		t.Fatal(err)
	}
	return store
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
			t.Fatalf("%s %s = %v, want a response", method, path, err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}
