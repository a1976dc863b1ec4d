package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/internal/patching"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/wire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func fuzzKind(t testing.TB) *servedKind {
	t.Helper()
	k, err := newKind(Resource{
		Version: "v1", Kind: "Pod", Plural: "pods", Namespaced: true,
		New:     func() runtime.Object { return &corev1.Pod{} },
		NewList: func() runtime.Object { return &corev1.PodList{} },
		Fields:  map[string]func(runtime.Object) string{"spec.nodeName": func(o runtime.Object) string { return o.(*corev1.Pod).Spec.NodeName }},
	}, &Config{Prefix: "/registry"}, wire.NewCodec())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// FuzzParseRequest: whatever is accepted names a key that stays in its place.
func FuzzParseRequest(f *testing.F) {
	for _, path := range []string{
		"/", "/api", "/api/v1", "/api/v1/pods", "/api/v1/namespaces/default/pods/web/status", "/apis/apps/v1/namespaces/a/deployments/b/scale",
		"/api/v1/namespaces/x/finalize", "/api/v1/namespaces/../pods", "/api/v1/pods/%2e%2e", "/api/v1/namespaces/a%2fb/pods", "//", "/api/v1/pods/a%00", "/%ff",
	} {
		f.Add("GET", path, "watch=true&fieldSelector=metadata.name=x")
	}
	k := fuzzKind(f)
	f.Fuzz(func(t *testing.T, method, path, query string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		u.RawQuery = query
		info, err := requestline.Parse(method, u)
		if err != nil {
			return
		}
		for _, name := range []string{info.Resource, info.Subresource, info.Namespace, info.Name} {
			if name != "" && requestline.CheckSegment(name) != nil {
				t.Errorf("%q has segment %q", path, name)
			}
		}
		if a := info.Attributes(nil); (a.Resource == "") == (a.Path == "") {
			t.Errorf("%q is both or neither of resource and path: %+v", path, a)
		}
		if info.Resource == "" || info.Name == "" || info.Namespace == "" || method != http.MethodGet {
			return
		}
		if key := string(k.key(info.Namespace, info.Name)); slices.Contains(strings.Split(key, "/"), "..") || !strings.HasPrefix(key, "/registry/core/pods/") {
			t.Errorf("%q reads %q", path, key)
		}
	})
}

// FuzzSelection: no selector breaks the server, and what it matches it also
// finds under its prefix.
func FuzzSelection(f *testing.F) {
	f.Add("a=b,c in (d,e),!f", "metadata.name=web,spec.nodeName!=n", "default")
	f.Add("", "metadata.name=web", "")
	f.Add("a", "metadata.namespace=default", "")
	k := fuzzKind(f)
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.Labels = "web", "default", map[string]string{"a": "b", "c": "d"}
	f.Fuzz(func(t *testing.T, byLabel, byField, namespace string) {
		s, err := newSelection(k, namespace, byLabel, byField)
		if err != nil {
			if toStatus(err).Code != http.StatusBadRequest {
				t.Errorf("newSelection(%q, %q, %q) = %v, want the code 400", namespace, byLabel, byField, err)
			}
			return
		}
		key := string(k.key(pod.Namespace, pod.Name))
		if s.matches(pod) && (namespace == "" || namespace == pod.Namespace) && !strings.HasPrefix(key, string(s.prefix)) {
			t.Errorf("%q %q matches %s, which is not under %s", byLabel, byField, key, s.prefix)
		}
	})
}

// FuzzPatch: every patch gives JSON or an error that is the client's.
func FuzzPatch(f *testing.F) {
	for i, patch := range []string{
		`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`, `{"spec":{"nodeName":"n"}}`, `{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}`,
		`[{"op":"copy","from":"/metadata","path":"/metadata/x"}]`, `[{"op":"move","from":"","path":"/a"}]`, `{"spec":{"$retainKeys":["a"]}}`, `[{"op":"test"}]`, `null`,
	} {
		f.Add(uint8(i), patch)
	}
	f.Fuzz(func(t *testing.T, kind uint8, patch string) {
		media := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType}[kind%3]
		original := []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
		result, err := patching.Apply(context.Background(), wire.NewCodec(), media, original, []byte(patch), &corev1.Pod{})
		if err != nil {
			if code := toStatus(err).Code; code < 400 || code >= 500 {
				t.Errorf("%s of %q: %d %v", media, patch, code, err)
			}
			return
		}
		if !json.Valid(result) {
			t.Errorf("%s of %q gives %q", media, patch, result)
		}
	})
}

// FuzzDecodeBody: every body gives an object or a 400.
func FuzzDecodeBody(f *testing.F) {
	f.Add(uint8(0), []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"}}`))
	f.Add(uint8(1), []byte("kind: Pod\nmetadata: {name: web}\n"))
	f.Add(uint8(2), []byte("k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00"))
	c := wire.NewCodec()
	k := fuzzKind(f)
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		media := []string{wire.JSON, wire.YAML, wire.Proto}[kind%3]
		pod := &corev1.Pod{}
		if _, err := c.DecodeBody(context.Background(), body, media, "", k.gvk, pod); err != nil {
			if toStatus(err).Code != http.StatusBadRequest {
				t.Errorf("DecodeBody(%q as %s) = %v, want the code 400", body, media, err)
			}
			return
		}
		if _, err := k.encode(context.Background(), pod); err != nil {
			t.Errorf("%s %q cannot be stored: %v", media, body, err)
		}
	})
}

// FuzzAccept: whatever clients accept, the answer is one that they get or 406.
func FuzzAccept(f *testing.F) {
	f.Add("application/json;as=Table;v=v1;g=meta.k8s.io, */*;q=0.1")
	f.Add("application/vnd.kubernetes.protobuf;q=nan,text/*")
	f.Fuzz(func(t *testing.T, accept string) {
		r := &http.Request{URL: &url.URL{}, Header: http.Header{"Accept": {accept}}}
		out, err := wire.Negotiate(r, wire.Accepts{Proto: true, Tables: true, Parts: true})
		if err == nil && !slices.Contains([]string{wire.JSON, wire.YAML, wire.Proto}, out.Media) {
			t.Errorf("%q gives %+v", accept, out)
		}
		if err != nil && toStatus(err).Code != http.StatusNotAcceptable {
			t.Errorf("Negotiate(%q) = %v, want the code 406", accept, err)
		}
	})
}
