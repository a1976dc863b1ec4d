package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kinds/kind"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func Example() {
	transport := client.TransportFunc(func(r *http.Request) (*http.Response, error) {
		fmt.Println(r.Method, r.URL.Path)
		return &http.Response{
			StatusCode: http.StatusOK,
			Header:     http.Header{"Content-Type": {"application/json"}},
			Body:       io.NopCloser(strings.NewReader(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"default","resourceVersion":"7"}}`)),
		}, nil
	})
	c, err := client.New(client.InProcess(transport))
	if err != nil {
		fmt.Println(err)
		return
	}
	pod, err := typed.Pods(c).Get(context.Background(), "default", "web")
	fmt.Println(pod.Name, pod.ResourceVersion, err)
	// Output:
	// GET /api/v1/namespaces/default/pods/web
	// web 7 <nil>
}

// ExampleFor reads a custom resource, whose Go type is unstructured. A Resource is also a source for
// an informer: informer.For(crontabs) keeps a local cache of it.
func ExampleFor() {
	c, err := client.New(client.InProcess(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
		fmt.Println(r.Method, r.URL.Path)
		return &http.Response{
			StatusCode: http.StatusOK,
			Header:     http.Header{"Content-Type": {"application/json"}},
			Body:       io.NopCloser(strings.NewReader(`{"kind":"CronTab","apiVersion":"stable.example.com/v1","metadata":{"name":"hourly","namespace":"default"}}`)),
		}, nil
	})))
	if err != nil {
		fmt.Println(err)
		return
	}
	crontabs := client.For(c, kind.Kind[*unstructured.Unstructured]{
		Group: "stable.example.com", Version: "v1", Kind: "CronTab", Plural: "crontabs", Namespaced: true,
		New: func() *unstructured.Unstructured { return &unstructured.Unstructured{} },
	})
	crontab, err := crontabs.Get(context.Background(), "default", "hourly")
	fmt.Println(crontab.GetName(), err)
	// Output:
	// GET /apis/stable.example.com/v1/namespaces/default/crontabs/hourly
	// hourly <nil>
}

func TestVerbs(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		t.Run(fmt.Sprintf("json=%v", asJSON), func(t *testing.T) {
			w := newWire(t)
			var got string
			var body runtime.Object
			c := serve(t, client.Config{JSON: asJSON, BearerToken: "s3cret"}, func(rw http.ResponseWriter, r *http.Request) {
				got, body = r.Method+" "+r.URL.RequestURI(), nil
				if r.Header.Get("Authorization") != "Bearer s3cret" || r.Header.Get("User-Agent") != "planekit" {
					t.Errorf("headers %v", r.Header)
				}
				if r.Method == "POST" || r.Method == "PUT" {
					if want := map[bool]string{false: client.Protobuf, true: client.JSON}[asJSON]; r.Header.Get("Content-Type") != want {
						t.Errorf("%s as %s", got, r.Header.Get("Content-Type"))
					}
					body = w.decode(r)
				}
				if strings.HasSuffix(r.URL.Path, "/binding") || r.Method == "DELETE" {
					w.respond(rw, r, 200, &metav1.Status{Status: metav1.StatusSuccess})
					return
				}
				w.respond(rw, r, 200, pod("web", "8"))
			})
			ctx, pods := context.Background(), typed.Pods(c)
			check := func(want string, answer *corev1.Pod, err error) {
				t.Helper()
				if err != nil || got != want {
					t.Errorf("%s, want %s: %v", got, want, err)
				}
				if answer != nil && (answer.Name != "web" || answer.ResourceVersion != "8" || answer.Kind != "Pod" || answer.APIVersion != "v1") {
					t.Errorf("%s: answer %+v", want, answer)
				}
			}
			sent := pod("web", "7")
			answer, err := pods.Get(ctx, "default", "web")
			check("GET /api/v1/namespaces/default/pods/web", answer, err)
			answer, err = pods.Create(ctx, sent)
			check("POST /api/v1/namespaces/default/pods", answer, err)
			if p, ok := body.(*corev1.Pod); !ok || p.Spec.Containers[0].Image != "nginx" || p.Labels["app"] != "web" {
				t.Errorf("the server got %+v", body)
			}
			answer, err = pods.Update(ctx, sent)
			check("PUT /api/v1/namespaces/default/pods/web", answer, err)
			answer, err = pods.UpdateStatus(ctx, sent)
			check("PUT /api/v1/namespaces/default/pods/web/status", answer, err)
			if sent.Kind != "" {
				t.Error("the object passed in was changed")
			}
			answer, err = pods.Patch(ctx, "default", "web", types.MergePatchType, []byte(`{}`), "status")
			check("PATCH /api/v1/namespaces/default/pods/web/status", answer, err)
			check("DELETE /api/v1/namespaces/default/pods/web", nil, pods.Delete(ctx, "default", "web", metav1.DeleteOptions{}))
			check("DELETE /api/v1/namespaces/default/pods?labelSelector=a%3Db", nil,
				pods.DeleteCollection(ctx, "default", metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "a=b"}))
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Target: corev1.ObjectReference{Kind: "Node", Name: "a"}}
			check("POST /api/v1/namespaces/default/pods/web/binding", nil, pods.Post(ctx, "default", "web", "binding", binding))
			if b, ok := body.(*corev1.Binding); !ok || b.Target.Name != "a" {
				t.Errorf("the server got %+v", body)
			}
			check("POST /api/v1/namespaces/default/pods/web/eviction", nil, pods.Post(ctx, "default", "web", "eviction", &policyv1.Eviction{}))
		})
	}
}

func TestPatchAndDeleteBodies(t *testing.T) {
	w := newWire(t)
	var body []byte
	var contentType string
	c := serve(t, client.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		contentType = r.Header.Get("Content-Type")
		w.respond(rw, r, 200, pod("web", "8"))
	})
	pods := typed.Pods(c)
	if _, err := pods.Patch(context.Background(), "default", "web", types.StrategicMergePatchType, []byte(`{"a":1}`)); err != nil {
		t.Error(err)
	}
	if string(body) != `{"a":1}` || contentType != "application/strategic-merge-patch+json" {
		t.Errorf("%s as %s", body, contentType)
	}
	grace := int64(0)
	if err := pods.Delete(context.Background(), "default", "web", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Error(err)
	}
	var o metav1.DeleteOptions
	if err := json.Unmarshal(body, &o); err != nil || o.Kind != "DeleteOptions" || o.GracePeriodSeconds == nil || *o.GracePeriodSeconds != 0 {
		t.Errorf("Delete sent %s: %v, want DeleteOptions with a grace period of 0 seconds", body, err)
	}
}

func TestStatusErrors(t *testing.T) {
	w := newWire(t)
	for _, asJSON := range []bool{false, true} {
		c := serve(t, client.Config{JSON: asJSON}, func(rw http.ResponseWriter, r *http.Request) {
			w.fail(rw, r, 404, metav1.StatusReasonNotFound, `pods "web" not found`)
		})
		_, err := typed.Pods(c).Get(context.Background(), "default", "web")
		var status *apierrors.StatusError
		if !errors.As(err, &status) || !apierrors.IsNotFound(err) || err.Error() != `pods "web" not found` {
			t.Errorf("json=%v: %v", asJSON, err)
		}
	}
	for code, is := range map[int]func(error) bool{
		401: apierrors.IsUnauthorized, 429: apierrors.IsTooManyRequests, 503: apierrors.IsServiceUnavailable,
		307: func(err error) bool { return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown },
	} {
		c := serve(t, client.Config{}, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("a redirect was followed")
			}
			rw.Header().Set("Location", "/elsewhere")
			rw.WriteHeader(code)
			io.WriteString(rw, "<html>not Kubernetes</html>")
		})
		_, err := typed.Pods(c).Get(context.Background(), "default", "web")
		if status, ok := errors.AsType[*apierrors.StatusError](err); !ok || status.ErrStatus.Code != int32(code) || !is(err) {
			t.Errorf("Get answered with %d: %#v, want a StatusError of this code and its reason", code, err)
		}
	}
}

func TestFallsBackToJSON(t *testing.T) {
	w := newWire(t)
	for _, code := range []int{http.StatusNotAcceptable, http.StatusUnsupportedMediaType} {
		var asked []string
		c := serve(t, client.Config{}, func(rw http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Header.Get("Content-Type"))
			if strings.Contains(r.Header.Get("Accept"), "protobuf") {
				rw.WriteHeader(code)
				return
			}
			w.respond(rw, r, 201, w.decode(r))
		})
		for range 2 {
			p, err := typed.Pods(c).Create(context.Background(), pod("web", ""))
			if err != nil || p.Spec.Containers[0].Image != "nginx" {
				t.Fatalf("Create, protobuf answered with %d = %v, %v, want a pod of nginx", code, p, err)
			}
		}
		if !slices.Equal(asked, []string{client.Protobuf, client.JSON, client.JSON}) {
			t.Errorf("%d: asked as %v", code, asked)
		}
	}
}

func TestBadNamesNeverLeave(t *testing.T) {
	c := serve(t, client.Config{}, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	pods, ctx := typed.Pods(c), context.Background()
	for _, name := range []string{"", ".", "..", "a/b", "a%2fb"} {
		if _, err := pods.Get(ctx, "default", name); err == nil {
			t.Errorf("name %q is accepted", name)
		}
		if name != "" {
			if _, _, err := pods.List(ctx, name, metav1.ListOptions{}); err == nil {
				t.Errorf("namespace %q is accepted", name)
			}
		}
	}
	if _, err := pods.Get(ctx, "", "web"); err == nil {
		t.Error("a pod without a namespace is accepted")
	}
	if _, err := pods.Create(ctx, &corev1.Pod{}); err == nil {
		t.Error("creating without a namespace is accepted")
	}
	if _, err := typed.Nodes(c).Get(ctx, "default", "a"); err == nil {
		t.Error("a node in a namespace is accepted")
	}
	if err := pods.Post(ctx, "default", "web", "x", &corev1.Secret{}); err == nil {
		t.Error("a body without a kind is accepted")
	}
}

func TestWrongAnswers(t *testing.T) {
	w := newWire(t)
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"another kind": func(rw http.ResponseWriter, r *http.Request) { w.respond(rw, r, 200, &corev1.Node{}) },
		"no media type": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header()["Content-Type"] = nil
			rw.Write([]byte("{}"))
		},
		"text": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			rw.Write([]byte("hello"))
		},
		"truncated": func(rw http.ResponseWriter, r *http.Request) {
			data := w.encode(client.Protobuf, pod("web", "1"))
			rw.Header().Set("Content-Type", client.Protobuf)
			rw.Write(data[:len(data)/2])
		},
	} {
		c := serve(t, client.Config{}, answer)
		if _, err := typed.Pods(c).Get(context.Background(), "default", "web"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, server := range []string{"", "host:6443", "ftp://host", "https://", "https://u:p@host", "https://host?x=y", "::"} {
		if _, err := client.New(client.Config{Server: server}); err == nil {
			t.Errorf("server %q is accepted", server)
		}
	}
}
