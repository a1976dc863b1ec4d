package apiserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzServer: whatever a client sends, an answer comes in time, it is no fault of
// the server's, a refusal is a Status, and afterwards everything still lists.
func FuzzServer(f *testing.F) {
	for _, s := range []struct{ method, path, media, accept, body string }{
		{"POST", configPath, "application/json", "", configMap("a", `,"data":{"a":"b"}`)},
		{"POST", configPath + "?dryRun=All&fieldValidation=Strict", "application/yaml", "application/yaml", "metadata: {generateName: a-}"},
		{"PUT", configPath + "/web", "application/json", "application/vnd.kubernetes.protobuf", configMap("web", `,"data":{"c":"d"}`)},
		{"PATCH", configPath + "/web", "application/json-patch+json", "", `[{"op":"copy","from":"/data","path":"/metadata/labels"}]`},
		{"PATCH", configPath + "/web", "application/merge-patch+json", "", `{"metadata":{"labels":{"a":"b"},"finalizers":["a/b"]}}`},
		{"PATCH", podPath + "/web", "application/strategic-merge-patch+json", "", `{"spec":{"containers":[{"name":"c","$patch":"delete"},{"name":"d"}]}}`},
		{"PATCH", podPath + "/web/status", "application/strategic-merge-patch+json", "", `{"status":{"$setElementOrder/conditions":[{"type":"x"}],"conditions":[{"type":"x"}]}}`},
		{"PATCH", configPath + "/web?fieldManager=m&force=true", "application/apply-patch+yaml", "", `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"c"}}`},
		{"PUT", deployPath + "/web/scale", "application/json", "", `{"spec":{"replicas":3}}`},
		{"POST", podPath + "/web/binding", "application/json", "", `{"target":{"name":"n"}}`},
		{"DELETE", configPath + "?labelSelector=a%3Db", "application/json", "", `{"preconditions":{"uid":"x"},"gracePeriodSeconds":3}`},
		{"DELETE", podPath + "/web", "application/json", "", `{"propagationPolicy":"Foreground"}`},
		{"GET", configPath + "?limit=1&resourceVersion=3&resourceVersionMatch=Exact", "", "application/json;as=Table;v=v1;g=meta.k8s.io", ""},
		{"GET", podPath + "?fieldSelector=spec.nodeName%3Dn&continue=x&includeObject=Object", "", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ""},
		{"GET", configPath + "?watch=true&timeoutSeconds=1", "", "", ""},
		{"GET", "/apis", "", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ""},
		{"GET", "/openapi/v2", "", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", ""},
		{"GET", "/readyz?verbose&exclude=x", "", "", ""},
	} {
		f.Add(s.method, s.path, s.media, s.accept, s.body)
	}
	store := memstore.New()
	s := fuzzServer(f, store)
	f.Fuzz(func(t *testing.T, method, path, media, accept, body string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || method == "" || strings.Contains(u.RawQuery, "resourceVersion") && !strings.Contains(u.RawQuery, "resourceVersion=3") {
			return // not for a handler, or a wait for what is to come
		}
		empty(t, store)
		for path, object := range map[string]string{configPath: configMap("web", `,"data":{"a":"b"}`), podPath: pod("web", ""), deployPath: deployment("web", 1)} {
			if w := serveOne(s, "POST", path, "application/json", "", object); w.Code != http.StatusCreated {
				t.Fatalf("POST %s = %d %s, want 201", path, w.Code, w.Body)
			}
		}
		w := serveOne(s, method, path, media, accept, body)
		var status metav1.Status
		switch {
		case w.Code >= 500 && w.Code != http.StatusGatewayTimeout:
			t.Errorf("%s %q of %q as %q = %d %s, want less than 500, or 504", method, path, body, media, w.Code, w.Body)
		case w.Code >= 400 && strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && (json.Unmarshal(w.Body.Bytes(), &status) != nil || status.Kind != "Status" || status.Code != int32(w.Code)):
			t.Errorf("%s %q: %d with %s", method, path, w.Code, w.Body)
		}
		for _, path := range []string{"/api/v1/configmaps", "/api/v1/pods", "/apis/apps/v1/deployments", "/api/v1/namespaces"} {
			for _, accept := range []string{"", "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io"} {
				if w := serveOne(s, "GET", path, "", accept, ""); w.Code != http.StatusOK || w.Header().Get("Warning") != "" {
					t.Errorf("after %s %q %q %q, %s gives %d %s", method, path, media, body, path, w.Code, w.Header())
				}
			}
		}
	})
}

func fuzzServer(t testing.TB, store storage.Store) *apiserver.Server {
	t.Helper()
	s, err := apiserver.New(apiserver.Config{
		Store: store, Resources: resources(), Authorizer: authz.Superusers("all"),
		Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) {
			return &user.Info{Name: "a", Groups: []string{"all"}}, true, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// empty deletes what store has.
func empty(t testing.TB, store storage.Store) {
	t.Helper()
	page, err := store.List(t.Context(), "/", storage.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range page.Records {
		if _, err := store.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: record.Key, Previous: record.Revision}); err != nil {
			t.Fatal(err)
		}
	}
}

// serveOne gives the server a request whose client leaves after two seconds.
func serveOne(s *apiserver.Server, method, path, media, accept, body string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	u, err := url.ParseRequestURI(path)
	if err != nil {
		panic(err) // checked by the caller
	}
	r := (&http.Request{Method: method, URL: u, Host: "host", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: int64(len(body)),
		Body: http.NoBody, RequestURI: path}).WithContext(ctx)
	if body != "" {
		r.Body = readCloser{strings.NewReader(body)}
	}
	for name, value := range map[string]string{"Content-Type": media, "Accept": accept} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
