package apiserver_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// running is pods with what runs behind them: a log of the pod's name which
// goes on until the client has enough, and an exec.
func running() apiserver.Resource {
	r := pods()
	r.Subresources = []apiserver.Subresource{
		apiserver.Proxy{Name: "log", Verbs: []string{"get"}, Connect: func(parent runtime.Object) (http.Handler, error) {
			name := parent.(*corev1.Pod).Name
			if name == "idle" {
				return nil, apierrors.NewBadRequest("the pod has not started")
			}
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintln(w, name, r.URL.RawQuery)
				if http.NewResponseController(w).Flush() == nil {
					<-r.Context().Done()
				}
			}), nil
		}},
		apiserver.Proxy{Name: "exec", Kind: "PodExecOptions", Options: func() runtime.Object { return &corev1.PodExecOptions{} }, Verbs: []string{"create"}, Connect: func(runtime.Object) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method) }), nil
		}},
	}
	return r
}

func TestConnect(t *testing.T) {
	var asked, admitted string
	s := apiservertest.Start(t, apiservertest.WithResources(running()),
		apiservertest.WithAuthorizer(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			asked = a.Verb + " " + a.Resource + "/" + a.Subresource
			return authz.Allow, "", nil
		})),
		apiservertest.WithAdmission(admit{validate: func(_ context.Context, r *admission.Request) error {
			options, _ := r.Object.(*corev1.PodExecOptions)
			admitted = fmt.Sprintf("%s %s %s %+v %v", r.Operation, r.Subresource, r.Kind.Kind, options, r.OldObject)
			return nil
		}}))
	a := &api{t, s.Client(), s.URL}
	a.create(podPath, pod("p", ""))
	a.create(podPath, pod("idle", ""))
	admitted = ""
	response, err := s.Client().Get(s.URL + podPath + "/p/log?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if line, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil || line != "p follow=true\n" {
		t.Errorf("the first line of the log is %q, %v, want %q", line, err, "p follow=true\n")
	}
	if asked != "get pods/log" || admitted != "" {
		t.Errorf("asked %s, admitted %s", asked, admitted)
	}
	a.want(a.do("GET", podPath+"/p/exec", ""), 200, "GET")
	if asked != "create pods/exec" {
		t.Errorf("exec by GET asked for %s", asked)
	}
	a.want(a.do("POST", podPath+"/p/exec?command=ls&command=-l&stdin=true&tty=0&container=c", ""), 200, "POST")
	options := &corev1.PodExecOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodExecOptions"}, Command: []string{"ls", "-l"}, Stdin: true, Container: "c"}
	if want := fmt.Sprintf("CONNECT exec PodExecOptions %+v <nil>", options); admitted != want {
		t.Errorf("exec was admitted as %s, want %s", admitted, want)
	}
	a.want(a.do("POST", podPath+"/p/log", ""), 405, "")
	a.want(a.do("GET", podPath+"/idle/log", ""), 400, "has not started")
	a.want(a.do("GET", podPath+"/none/log", ""), 404, `pods "none" not found`)
}

// TestConnectPaths: what follows the name of a subresource with Paths is its
// own, with any method; others have nothing there.
func TestConnectPaths(t *testing.T) {
	r, asked := running(), ""
	r.Subresources = append(r.Subresources, apiserver.Proxy{
		Name: "proxy", Verbs: []string{"create", "delete", "get", "patch", "update"}, Paths: true,
		Connect: func(parent runtime.Object) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, parent.(*corev1.Pod).Name, " ", r.Method, " ", r.URL.Path)
			}), nil
		},
	})
	s := apiservertest.Start(t, apiservertest.WithResources(r),
		apiservertest.WithAuthorizer(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			asked = a.Verb + " " + a.Resource + "/" + a.Subresource + " " + a.Name
			return authz.Allow, "", nil
		})))
	a := &api{t, s.Client(), s.URL}
	a.create(podPath, pod("p", ""))
	for method, verb := range map[string]string{"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "OPTIONS": "options"} {
		for _, name := range []string{"p", "p:80", "https:p:443", "https:p:"} {
			for _, rest := range []string{"/proxy", "/proxy/", "/proxy/a/b"} {
				a.want(a.do(method, podPath+"/"+name+rest, ""), 200, "p "+method+" "+podPath+"/"+name+rest)
				if want := verb + " pods/proxy " + name; asked != want {
					t.Errorf("asked for %q, want %q", asked, want)
				}
			}
		}
	}
	a.want(a.do("GET", podPath+"/q:80/proxy/", ""), 404, `pods "q" not found`)
	a.want(a.do("GET", podPath+"/p/log/a", ""), 404, "")
	a.want(a.do("GET", podPath+"/p:80/log", ""), 404, `pods "p:80" not found`)
	a.want(a.do("GET", podPath+"/p/proxy/%2e%2e/x", ""), 400, "")
	a.want(a.do("DELETE", podPath+"/p/exec", ""), 405, "")
	a.want(a.do("OPTIONS", podPath+"/p/exec", ""), 405, "")
	a.want(a.do("OPTIONS", podPath+"/p", ""), 405, "")
}

func TestAnswer(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithResources(apiserver.Resource{
		Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview", Plural: "selfsubjectaccessreviews",
		New: func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} },
		Answer: func(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
			review := obj.DeepCopyObject().(*authorizationv1.SelfSubjectAccessReview)
			u, _ := user.FromContext(ctx)
			review.Status.Allowed, review.Status.Reason = u.In("system:masters"), u.Name
			return review, nil
		},
	}))
	a := &api{t, s.As("jane", "system:masters"), s.URL}
	path := "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	got := into[authorizationv1.SelfSubjectAccessReview](t, a.create(path, `{"spec":{"resourceAttributes":{"verb":"list","resource":"pods"}}}`))
	if !got.Status.Allowed || got.Status.Reason != "jane" || got.Kind != "SelfSubjectAccessReview" || got.Spec.ResourceAttributes.Verb != "list" {
		t.Errorf("the answer is %v, want it allowed, the reason jane, the kind SelfSubjectAccessReview and the verb list", got)
	}
	a.want(a.do("GET", path, ""), 405, "")
	a.want(a.do("GET", "/openapi/v3/apis/authorization.k8s.io/v1", ""), 200, "SelfSubjectAccessReview")
	list := into[metav1.APIResourceList](t, a.do("GET", "/apis/authorization.k8s.io/v1", ""))
	if verbs := list.APIResources[0].Verbs; len(verbs) != 1 || verbs[0] != "create" {
		t.Errorf("verbs %v", verbs)
	}
}

// TestConnectOptions: admission sees the path below a proxy, and numbers that are none are refused.
func TestConnectOptions(t *testing.T) {
	r := pods()
	r.Strategy.Default = func(obj runtime.Object) { _ = obj.(*corev1.Pod) } // it is for pods alone
	reached := func(runtime.Object) (http.Handler, error) {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil
	}
	r.Subresources = []apiserver.Subresource{
		apiserver.Proxy{Name: "proxy", Kind: "PodProxyOptions", Options: func() runtime.Object { return &corev1.PodProxyOptions{} }, Verbs: []string{"get"}, Paths: true, Connect: reached},
		apiserver.Proxy{Name: "portforward", Kind: "PodPortForwardOptions", Options: func() runtime.Object { return &corev1.PodPortForwardOptions{} }, Verbs: []string{"create"}, Connect: reached},
	}
	var admitted string
	s := apiservertest.Start(t, apiservertest.WithResources(r), apiservertest.WithAdmission(admit{validate: func(_ context.Context, r *admission.Request) error {
		admitted = ""
		switch o := r.Object.(type) {
		case *corev1.PodProxyOptions:
			admitted = o.Path
		case *corev1.PodPortForwardOptions:
			admitted = fmt.Sprint(o.Ports)
		}
		return nil
	}}))
	a := &api{t, s.Client(), s.URL}
	a.create(podPath, pod("p", ""))
	for _, c := range []struct {
		path, admitted string
		code           int
	}{
		{"/p/proxy", "", 200},
		{"/p/proxy/", "/", 200},
		{"/p/proxy/a/proxy/b/?path=/other", "/a/proxy/b/", 200},
		{"/https:p:443/proxy/x", "/x", 200},
		{"/p/portforward?ports=80&ports=443", "[80 443]", 200},
		{"/p/portforward?ports=80,443", "[80 443]", 200},
		{"/p/portforward?ports=80,", "", 400},
		{"/p/portforward?ports=x", "", 400},
		{"/p/portforward?ports=4294967376", "", 400},
	} {
		admitted = ""
		if got := a.do("GET", podPath+c.path, ""); got.code != c.code || admitted != c.admitted {
			t.Errorf("GET %s = %d %.200s, admitted with %q, want %d and %q", c.path, got.code, got.body, admitted, c.code, c.admitted)
		}
	}
}
